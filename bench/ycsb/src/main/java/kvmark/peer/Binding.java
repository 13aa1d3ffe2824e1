package kvmark.peer;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.Vector;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.Status;

/** A binding with the operations that are measured: reads, and updates where a store has them. */
abstract class Binding extends DB {
  /** An operation of a store. */
  interface Operation {
    Status run() throws Exception;
  }

  /** Prints a failed operation's message, and returns its status. */
  static Status attempt(final Operation operation) {
    try {
      return operation.run();
    } catch (final Exception failure) {
      System.err.println(failure.getMessage());
      return Status.ERROR;
    }
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

  @Override
  public Status scan(final String table, final String start, final int count,
      final Set<String> wanted, final Vector<HashMap<String, ByteIterator>> result) {
    return Status.NOT_IMPLEMENTED;
  }
}
