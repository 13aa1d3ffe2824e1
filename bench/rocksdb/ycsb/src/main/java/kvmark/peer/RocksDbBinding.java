package kvmark.peer;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/** Sends YCSB's operations to embedded RocksDB, each as the commands that kvmark's driver sends. */
public final class RocksDbBinding extends DB {
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
  public Status scan(final String table, final String start, final int count,
      final Set<String> wanted, final Vector<HashMap<String, ByteIterator>> result) {
    return attempt(() -> {
      try (RocksIterator rows = database.db.newIterator(database.table)) {
        rows.seek(bytes(start));
        for (int row = 0; row < count && rows.isValid(); row++) {
          final HashMap<String, ByteIterator> fields = new HashMap<>();
          RecordFormat.decode(rows.value(), wanted, fields);
          result.add(fields);
          rows.next();
        }
        rows.status();
      }
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
      fields.putAll(arrays(values));
      database.db.put(database.table, bytes(key), RecordFormat.encode(fields));
      return Status.OK;
    });
  }

  @Override
  public Status insert(final String table, final String key,
      final Map<String, ByteIterator> values) {
    return attempt(() -> {
      database.db.put(database.table, bytes(key), RecordFormat.encode(arrays(values)));
      return Status.OK;
    });
  }

  @Override
  public Status delete(final String table, final String key) {
    return attempt(() -> {
      database.db.delete(database.table, bytes(key));
      return Status.OK;
    });
  }

  private static byte[] bytes(final String key) {
    return key.getBytes(StandardCharsets.UTF_8);
  }

  private static Map<String, byte[]> arrays(final Map<String, ByteIterator> values) {
    final Map<String, byte[]> arrays = new LinkedHashMap<>();
    values.forEach((name, value) -> arrays.put(name, value.toArray()));
    return arrays;
  }

  private interface Commands {
    Status run() throws RocksDBException;
  }

  private static Status attempt(final Commands commands) {
    try {
      return commands.run();
    } catch (final RocksDBException failure) {
      System.err.println("RocksDB: " + failure.getMessage());
      return Status.ERROR;
    }
  }
}
