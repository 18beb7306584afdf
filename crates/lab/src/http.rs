//! The head of an HTTP request, for the small servers of the lab.

use std::collections::HashMap;
use std::io::{self, BufRead};

/// A request, without its body.
pub(crate) struct RequestHead {
    /// `GET`.
    pub method: String,
    /// The path with the query, as it was sent.
    pub path: String,
    /// The headers; their names in small letters.
    pub headers: HashMap<String, String>,
}

impl RequestHead {
    /// Reads one up to the empty line, or to the end.
    pub(crate) fn read(reader: &mut impl BufRead) -> io::Result<Self> {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
                return Ok(Self { method, path, headers });
            }
            if let Some((name, value)) = line.split_once(':') {
                headers.insert(name.to_lowercase(), value.trim().to_owned());
            }
        }
    }
}
