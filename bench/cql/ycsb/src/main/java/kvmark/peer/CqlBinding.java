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
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import site.ycsb.ByteArrayByteIterator;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;

/**
 * Reads YCSB's records through CQL as YCSB 0.17.0's own binding does: all columns of the row under
 * the key, each handed over with its name.
 *
 * <p>All client threads share one session, which has one connection to each node; the first opens
 * it, the last closes it. What isn't measured here isn't there.
 */
public final class CqlBinding extends DB {
  private static final String DEFAULT_LEVEL = "QUORUM";
  private static final String DEFAULT_TIMEOUT_S = "10";

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
    final String level = getProperties().getProperty("cql.consistency", DEFAULT_LEVEL);
    final String seconds = getProperties().getProperty("cql.timeout_s", DEFAULT_TIMEOUT_S);
    final DriverConfigLoader settings = DriverConfigLoader.programmaticBuilder()
        .withString(DefaultDriverOption.REQUEST_CONSISTENCY, level)
        .withDuration(
            DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofSeconds(Long.parseLong(seconds)))
        .build();
    final String table = getProperties().getProperty("table", "usertable");
    try {
      session = CqlSession.builder()
          .addContactPoint(new InetSocketAddress(host, port))
          .withLocalDatacenter(getProperties().getProperty("cql.datacenter", "datacenter1"))
          .withKeyspace(getProperties().getProperty("cql.keyspace", "ycsb"))
          .withConfigLoader(settings)
          .build();
      select = session.prepare("SELECT * FROM " + table + " WHERE y_id = ?");
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
    final Row row;
    try {
      row = session.execute(select.bind(key)).one();
    } catch (final DriverException failure) {
      System.err.println("CQL: " + failure.getMessage());
      return Status.ERROR;
    }
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
  }

  @Override
  public Status scan(final String table, final String start, final int count,
      final Set<String> wanted, final Vector<HashMap<String, ByteIterator>> result) {
    return Status.NOT_IMPLEMENTED;
  }

  @Override
  public Status update(final String table, final String key,
      final Map<String, ByteIterator> values) {
    return Status.NOT_IMPLEMENTED;
  }

  @Override
  public Status insert(final String table, final String key,
      final Map<String, ByteIterator> values) {
    return Status.NOT_IMPLEMENTED;
  }

  @Override
  public Status delete(final String table, final String key) {
    return Status.NOT_IMPLEMENTED;
  }
}
