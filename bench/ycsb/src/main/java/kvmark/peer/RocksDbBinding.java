package kvmark.peer;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Set;
import org.rocksdb.RocksDBException;
import site.ycsb.ByteIterator;
import site.ycsb.DBException;
import site.ycsb.Status;

/** Sends reads and updates to embedded RocksDB as the calls that kvmark's driver makes. */
public final class RocksDbBinding extends Binding {
  private Database database;

  @Override
  public void init() throws DBException {
    try {
      database = Database.acquire(getProperties());
    } catch (final RocksDBException failure) {
      throw new DBException(failure);
    }
  }

  @Override
  public void cleanup() {
    Database.release();
  }

  @Override
  public Status read(final String table, final String key, final Set<String> wanted,
      final Map<String, ByteIterator> result) {
    return attempt(() -> {
      final byte[] stored = database.db.get(database.table, bytes(key));
      if (stored == null) {
        return Status.NOT_FOUND;
      }
      RecordFormat.decode(stored, wanted, result);
      return Status.OK;
    });
  }

  @Override
  public Status update(final String table, final String key,
      final Map<String, ByteIterator> values) {
    return attempt(() -> {
      final byte[] stored = database.db.get(database.table, bytes(key));
      if (stored == null) {
        return Status.NOT_FOUND;
      }
      final Map<String, byte[]> fields = RecordFormat.fields(stored);
      values.forEach((name, value) -> fields.put(name, value.toArray()));
      database.db.put(database.table, bytes(key), RecordFormat.encode(fields));
      return Status.OK;
    });
  }

  private static byte[] bytes(final String key) {
    return key.getBytes(StandardCharsets.UTF_8);
  }
}
