//! Keeps what one thread writes away from what others use.

/// A value with cache lines of its own: two, because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Apart<T>(pub T);
