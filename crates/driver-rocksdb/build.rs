//! Where programs of this crate find the RocksDB that they are linked to, when it is shared.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=ROCKSDB_LIB_DIR");
    println!("cargo:rerun-if-env-changed=ROCKSDB_STATIC");
    let linked = std::env::var_os("ROCKSDB_STATIC").is_some();
    if let (false, Ok(folder)) = (linked, std::env::var("ROCKSDB_LIB_DIR")) {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
