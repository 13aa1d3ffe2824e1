//! The Java virtual machine of this process: found and started at run time, and never ended.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::thread;

use jni::errors::StartJvmError;
use jni::objects::JString;
use jni::strings::JNIStr;
use jni::{Env, InitArgsBuilder, JavaVM, jni_sig, jni_str};
use kvmark_driver::OpenError;

/// The class that calls bindings, compiled when it is first used.
const SOURCE: &str = include_str!("../java/kvmark/BindingClient.java");
pub(crate) const CLIENT: &JNIStr = jni_str!("kvmark/BindingClient");
const INSTALL: &str = "install one, such as Debian's default-jdk-headless, or set JAVA_HOME";

/// A running virtual machine.
pub(crate) struct Machine {
    pub(crate) vm: JavaVM,
    /// The folder of temporary files, such as unpacked libraries.
    temporary: PathBuf,
}

impl Machine {
    /// Starts the virtual machine, of which a process can have one.
    pub(crate) fn start(classpath: &str, words: &str) -> Result<Self, OpenError> {
        let (home, path) = (java_home()?, class_path(classpath)?);
        let client = compiled(&home, &path)?;
        let temporary = env::temp_dir().join(format!("kvmark-java-{}", process::id()));
        let mut options = vec![
            format!("-Djava.class.path={}:{path}", client.display()),
            format!("-Djava.io.tmpdir={}", temporary.display()),
            // Its file in /tmp is written while all threads stand still.
            "-XX:-UsePerfData".to_owned(),
        ];
        options.extend(machine_options(words));
        // Signals are kvmark's.
        options.push("-Xrs".to_owned());
        let vm = create(home.join("lib/server/libjvm.so"), options).map_err(|error| {
            let home = home.display();
            OpenError::System(format!("Java in {home} doesn't start ({error}): check option 'jvm'"))
        })?;
        // A killed process with the same number left its own.
        fs::remove_dir_all(&temporary).ok();
        let made = DirBuilder::new().mode(0o700).create(&temporary);
        made.map_err(|error| unusable(&temporary, &error))?;
        Ok(Self { vm, temporary })
    }

    /// The versions of YCSB's core and of Java.
    pub(crate) fn versions(&self) -> Result<String, OpenError> {
        let core = |env: &mut Env<'_>| env.find_class(jni_str!("site/ycsb/DB")).map(drop);
        self.vm.attach_current_thread_for_scope(core).map_err(|_| no_core())?;
        let read = |env: &mut Env<'_>| {
            let signature = jni_sig!("()Ljava/lang/String;");
            let text = env.call_static_method(CLIENT, jni_str!("versions"), signature, &[])?.l()?;
            env.cast_local::<JString<'_>>(text)?.try_to_string(env)
        };
        self.vm.attach_current_thread_for_scope(read).map_err(|error| failure(&error))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Loaded libraries stay in memory.
        fs::remove_dir_all(&self.temporary).ok();
    }
}

/// Starts it on a thread of its own: Java advises against a process's first one.
fn create(
    library: PathBuf,
    options: Vec<String>,
) -> Result<JavaVM, Box<dyn std::error::Error + Send + Sync>> {
    if JavaVM::singleton().is_ok() {
        return Err("this process has started it before: start kvmark again".into());
    }
    let begun = thread::spawn(move || {
        let builder = InitArgsBuilder::new();
        let args = options.iter().fold(builder, |builder, one| builder.option(one)).build();
        Ok(JavaVM::with_libjvm(args?, || Ok::<_, StartJvmError>(library))?)
    });
    begun.join().unwrap_or_else(|_| Err("its start failed".into()))
}

fn unusable(path: &Path, error: &std::io::Error) -> OpenError {
    OpenError::System(format!("{} can't be used ({error})", path.display()))
}

/// The folder of the JDK that `JAVA_HOME` or `PATH` names.
fn java_home() -> Result<PathBuf, OpenError> {
    let named = env::var_os("JAVA_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    let found = || {
        let path = env::var_os("PATH")?;
        let mut programs = env::split_paths(&path).map(|folder| folder.join("java"));
        let program = programs.find_map(|program| fs::canonicalize(program).ok())?;
        Some(program.ancestors().nth(2)?.to_owned())
    };
    let home = named.or_else(found).filter(|home| home.join("lib/server/libjvm.so").is_file());
    home.ok_or_else(|| OpenError::System(format!("there is no JDK on this machine: {INSTALL}")))
}

/// The class path with the jars of `folder/*`, which Java's launcher expands otherwise.
fn class_path(text: &str) -> Result<String, OpenError> {
    let mut files = Vec::new();
    for entry in text.split(':').filter(|entry| !entry.is_empty()) {
        let before = files.len();
        if let Some(folder) = entry.strip_suffix('*') {
            let found = fs::read_dir(folder).into_iter().flatten().flatten();
            let jars = found.map(|file| file.path());
            files.extend(jars.filter(|path| path.extension() == Some(OsStr::new("jar"))));
            files[before..].sort_unstable();
        } else if Path::new(entry).exists() {
            files.push(entry.into());
        }
        if files.len() == before {
            let text = format!("option 'classpath': there is no {entry}");
            return Err(OpenError::Option(text));
        }
    }
    Ok(files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(":"))
}

/// The options of the virtual machine. Each begins with a minus, and may have commas.
fn machine_options(words: &str) -> Vec<String> {
    let words = words.strip_prefix('-').unwrap_or(words).split(",-");
    words.filter(|word| !word.is_empty()).map(|word| format!("-{word}")).collect()
}

/// The folder with the compiled class.
fn compiled(home: &Path, path: &str) -> Result<PathBuf, OpenError> {
    let mut hasher = DefaultHasher::new();
    (SOURCE, home).hash(&mut hasher);
    let cache = match env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder),
        None => env::home_dir().unwrap_or_default().join(".cache"),
    };
    let folder = cache.join(format!("kvmark/ycsb-binding-{:016x}", hasher.finish()));
    if folder.is_dir() {
        return Ok(folder);
    }
    let compiler = home.join("bin/javac");
    if !compiler.is_file() {
        let text = format!("Java in {} has no javac: {INSTALL} to one", home.display());
        return Err(OpenError::System(text));
    }
    let building = folder.with_extension(process::id().to_string());
    let source = building.join("BindingClient.java");
    fs::create_dir_all(&building)
        .and_then(|()| fs::write(&source, SOURCE))
        .map_err(|error| unusable(&building, &error))?;
    let mut command = Command::new(&compiler);
    command.args(["-nowarn", "-cp", path, "-d"]).arg(&building).arg(&source).env("LC_ALL", "C");
    let ended = command.output().map_err(|error| unusable(&compiler, &error))?;
    if ended.status.success() {
        // Another process may have been first.
        fs::rename(&building, &folder).ok();
    }
    fs::remove_dir_all(&building).ok();
    if folder.is_dir() {
        return Ok(folder);
    }
    let errors = String::from_utf8_lossy(&ended.stderr);
    if errors.contains("package site.ycsb does not exist") {
        return Err(no_core());
    }
    let line = errors.lines().next().unwrap_or("no reason given");
    Err(OpenError::System(format!("javac can't compile the client of bindings ({line})")))
}

fn no_core() -> OpenError {
    OpenError::Option(
        "option 'classpath': YCSB's core isn't there: add core-0.17.0.jar, which is the artifact \
         site.ycsb:core of Maven and in the folder lib of each release of YCSB"
            .to_owned(),
    )
}

/// An error of the interface to Java.
pub(crate) fn failure(error: &jni::errors::Error) -> OpenError {
    OpenError::System(format!("the call into Java failed ({error})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_machine_may_have_commas() {
        let options = machine_options("-Xmx1g,-Xlog:gc*,safepoint,-ea");
        assert_eq!(options, ["-Xmx1g", "-Xlog:gc*,safepoint", "-ea"]);
        assert!(machine_options("").is_empty());
    }

    #[test]
    fn a_class_path_has_the_jars_of_folders_and_no_missing_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        for name in ["b.jar", "a.jar", "c.txt"] {
            fs::write(at(name), "").unwrap();
        }
        let path = class_path(&format!("{}:{}", at("c.txt"), at("*"))).unwrap();
        assert_eq!(path, [at("c.txt"), at("a.jar"), at("b.jar")].join(":"));
        for missing in ["d.jar", "none/*"] {
            let error = class_path(&format!("{}:{}", at("a.jar"), at(missing))).unwrap_err();
            let text = format!("option 'classpath': there is no {}", at(missing));
            assert_eq!(error.to_string(), text);
        }
    }
}
