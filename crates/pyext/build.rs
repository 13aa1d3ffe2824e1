//! Where the engine looks for a library that lies beside it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    match std::env::var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("macos") => println!("cargo:rustc-link-arg-cdylib=-Wl,-rpath,@loader_path"),
        _ => println!("cargo:rustc-link-arg-cdylib=-Wl,-rpath,$ORIGIN"),
    }
}
