//! The console of a server: a command as words, its reply as text.

use std::sync::Arc;

use kvmark_driver::OpenError;
use kvmark_driver_server::framed::Lines;
use serde_json::Value;

use crate::connect::send;
use crate::options::Settings;

/// A connection to the first configured server.
pub(crate) struct Console {
    settings: Arc<Settings>,
    lines: Lines<Settings>,
}

impl Console {
    pub(crate) fn new(settings: Settings) -> Result<Self, OpenError> {
        let settings = Arc::new(settings);
        Ok(Self { lines: Lines::new(Arc::clone(&settings))?, settings })
    }
}

impl kvmark_driver::Console for Console {
    fn ask(&mut self, words: &[String]) -> Result<Value, OpenError> {
        let target = self.settings.targets.first().expect("an address names at least one server");
        let request = format!("{}\r\n", words.join(" "));
        let reply = self.lines.ask(target, request.as_bytes(), send);
        let reply = reply.map_err(|failure| failure.at(target))?;
        Ok(String::from_utf8_lossy(&reply).trim_end().into())
    }
}
