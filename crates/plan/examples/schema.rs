//! Prints the JSON Schema of a plan: `cargo run -p kvmark-plan --example schema`.

#![expect(clippy::print_stdout, reason = "the schema is this program's output")]

fn main() {
    println!("{}", kvmark_plan::schema());
}
