//! Shotover with the sources and sinks that its crate brings.

fn main() {
    shotover::runner::Shotover::new().run_block();
}
