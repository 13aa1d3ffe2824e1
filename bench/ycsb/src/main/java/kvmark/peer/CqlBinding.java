package kvmark.peer;

import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.DriverException;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.ColumnDefinition;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.Row;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DBException;
import site.ycsb.Status;

/**
 * Reads YCSB's records through CQL as YCSB 0.17.0's own binding does: all columns of the row under
 * the key, each with its name.
 *
 * <p>All client threads share one session, which has one connection to each node; the first opens
 * it, the last closes it.
 */
public final class CqlBinding extends Binding {
  private static CqlSession session;
  private static PreparedStatement select;
  private static int users;

  @Override
  public void init() throws DBException {
    synchronized (CqlBinding.class) {
      if (session == null) {
        open();
      }
      users++;
    }
  }

  private void open() throws DBException {
    final String host = getProperties().getProperty("cql.host", "127.0.0.1");
    final int port = Integer.parseInt(getProperties().getProperty("cql.port", "9042"));
    final String level = getProperties().getProperty("cql.consistency", "QUORUM");
    final DriverConfigLoader settings = DriverConfigLoader.programmaticBuilder()
        .withString(DefaultDriverOption.REQUEST_CONSISTENCY, level)
        .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(10))
        .build();
    try {
      session = CqlSession.builder()
          .addContactPoint(new InetSocketAddress(host, port))
          .withLocalDatacenter("datacenter1")
          .withKeyspace("ycsb")
          .withConfigLoader(settings)
          .build();
      select = session.prepare("SELECT * FROM usertable WHERE y_id = ?");
    } catch (final DriverException failure) {
      throw new DBException(failure);
    }
  }

  @Override
  public void cleanup() {
    synchronized (CqlBinding.class) {
      users--;
      if (users == 0) {
        session.close();
        session = null;
      }
    }
  }

  @Override
  public Status read(final String table, final String key, final Set<String> wanted,
      final Map<String, ByteIterator> result) {
    return attempt(() -> {
      final Row row = session.execute(select.bind(key)).one();
      if (row == null) {
        return Status.NOT_FOUND;
      }
      int place = 0;
      for (final ColumnDefinition column : row.getColumnDefinitions()) {
        final ByteBuffer bytes = row.getBytesUnsafe(place);
        final byte[] value = bytes == null ? new byte[0] : new byte[bytes.remaining()];
        if (bytes != null) {
          bytes.get(value);
        }
        result.put(column.getName().asInternal(), new ByteArrayByteIterator(value));
        place++;
      }
      return Status.OK;
    });
  }
}
