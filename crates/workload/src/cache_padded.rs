//! Keeps data that one thread writes off the cache lines of other threads' data.

/// A value aligned to two cache lines, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);
