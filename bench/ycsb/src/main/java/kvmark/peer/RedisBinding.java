package kvmark.peer;

import java.util.List;
import java.util.Map;
import java.util.Set;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.exceptions.JedisException;
import site.ycsb.ByteIterator;
import site.ycsb.DBException;
import site.ycsb.Status;
import site.ycsb.StringByteIterator;

/**
 * Sends reads and updates to Redis as the commands that YCSB 0.17.0's own binding sends.
 *
 * <p>A record is a hash under its key (HGETALL, HMGET, HMSET). Every client thread has its own
 * connection.
 */
public final class RedisBinding extends Binding {
  private Jedis server;

  @Override
  public void init() throws DBException {
    final String host = getProperties().getProperty("redis.host", "127.0.0.1");
    final String port = getProperties().getProperty("redis.port", "6379");
    server = new Jedis(host, Integer.parseInt(port));
    try {
      server.connect();
    } catch (final JedisException failure) {
      throw new DBException(failure);
    }
  }

  @Override
  public void cleanup() {
    server.close();
  }

  @Override
  public Status read(final String table, final String key, final Set<String> wanted,
      final Map<String, ByteIterator> result) {
    return attempt(() -> {
      if (wanted == null) {
        StringByteIterator.putAllAsByteIterators(result, server.hgetAll(key));
      } else {
        readFields(key, wanted.toArray(new String[0]), result);
      }
      return result.isEmpty() ? Status.NOT_FOUND : Status.OK;
    });
  }

  private void readFields(final String key, final String[] names,
      final Map<String, ByteIterator> result) {
    final List<String> values = server.hmget(key, names);
    for (int place = 0; place < names.length; place++) {
      if (values.get(place) != null) {
        result.put(names[place], new StringByteIterator(values.get(place)));
      }
    }
  }

  @Override
  public Status update(final String table, final String key,
      final Map<String, ByteIterator> values) {
    return attempt(() -> "OK".equals(server.hmset(key, StringByteIterator.getStringMap(values)))
        ? Status.OK : Status.ERROR);
  }
}
