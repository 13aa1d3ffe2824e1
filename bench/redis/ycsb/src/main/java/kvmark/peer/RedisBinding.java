package kvmark.peer;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.exceptions.JedisException;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;
import site.ycsb.StringByteIterator;

/**
 * Sends YCSB's operations to Redis, each as the commands that YCSB 0.17.0's own binding sends.
 *
 * <p>A record is a hash under its key (HMSET, HGETALL, HMGET); the sorted set "_indices" holds every
 * key, scored by Java's hash code of it, and a scan reads the keys there and then each record. Every
 * client thread has its own connection.
 */
public final class RedisBinding extends DB {
  private static final String INDEX = "_indices";

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
  public Status scan(final String table, final String start, final int count,
      final Set<String> wanted, final Vector<HashMap<String, ByteIterator>> result) {
    return attempt(() -> {
      final List<String> keys =
          server.zrangeByScore(INDEX, score(start), Double.POSITIVE_INFINITY, 0, count);
      for (final String key : keys) {
        final HashMap<String, ByteIterator> fields = new HashMap<>();
        read(table, key, wanted, fields);
        result.add(fields);
      }
      return Status.OK;
    });
  }

  @Override
  public Status update(final String table, final String key,
      final Map<String, ByteIterator> values) {
    return attempt(() -> write(key, values));
  }

  @Override
  public Status insert(final String table, final String key,
      final Map<String, ByteIterator> values) {
    return attempt(() -> {
      final Status written = write(key, values);
      server.zadd(INDEX, score(key), key);
      return written;
    });
  }

  @Override
  public Status delete(final String table, final String key) {
    // YCSB's own binding leaves a key in the index when its record was there.
    return attempt(() -> server.del(key) > 0 || server.zrem(INDEX, key) > 0
        ? Status.OK : Status.NOT_FOUND);
  }

  private Status write(final String key, final Map<String, ByteIterator> values) {
    return "OK".equals(server.hmset(key, StringByteIterator.getStringMap(values)))
        ? Status.OK : Status.ERROR;
  }

  private static double score(final String key) {
    return key.hashCode();
  }

  private interface Commands {
    Status run();
  }

  private static Status attempt(final Commands commands) {
    try {
      return commands.run();
    } catch (final JedisException failure) {
      System.err.println("Redis: " + failure.getMessage());
      return Status.ERROR;
    }
  }
}
