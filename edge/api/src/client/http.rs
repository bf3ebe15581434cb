//! HTTP/1.1 as far as the client needs it: one request after the other on one connection.
//!
//! Written out because the whole of it is a page, while HTTP crates bring an asynchronous runtime
//! and TLS into a command line that talks to its own machine. Everything that comes in is bounded.

use std::{
    io::{self, BufRead as _, BufReader, Read, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    time::Duration,
};

/// How long to try to connect. The node is on this machine or near.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of status line and headers together; our server sends about 200.
const HEAD_BYTES_MAX: u64 = 16 << 10;

/// Bytes of the line before a chunk: up to 16 hexadecimal digits and a short extension.
const CHUNK_LINE_BYTES_MAX: u64 = 256;

/// Lines after the last chunk; our server sends none.
const TRAILER_LINES_MAX: usize = 32;

/// Why an exchange failed.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address is not one.
    #[error("{found:?} is not an address, expected http://host:port")]
    Address {
        /// What was given.
        found: String,
    },
    /// Nobody answers.
    #[error("cannot connect to {address}")]
    Connect {
        /// The address.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The connection broke or was too slow.
    #[error("the connection to {address} failed")]
    Connection {
        /// The address.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Not HTTP.
    #[error("the answer is not HTTP: {what}")]
    Malformed {
        /// What is wrong with it.
        what: &'static str,
    },
    /// More bytes than any answer has.
    #[error("the answer has more than {max} bytes")]
    TooLarge {
        /// The limit.
        max: u64,
    },
}

/// The host and port of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host(String);

impl Host {
    /// Reads `http://host:port`, with or without the scheme and a slash at the end.
    pub(crate) fn parse(text: &str) -> Result<Self, HttpError> {
        let rest = text.strip_prefix("http://").unwrap_or(text);
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let address: Result<tg_types::Address, _> = rest.parse();
        address
            .map(|address| Self(address.to_string()))
            .map_err(|_| HttpError::Address { found: text.to_owned() })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    fn failed(&self, source: io::Error) -> HttpError {
        HttpError::Connection { address: self.0.clone(), source }
    }
}

/// How the end of a body is known.
#[derive(Debug)]
enum Framing {
    /// This many bytes are left.
    Length(u64),
    /// Chunks; this many bytes of the present one are left.
    Chunked { left: u64, first: bool },
    /// Until the connection ends.
    Close,
    /// All was read.
    Done,
}

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Connection {
    host: Host,
    reader: BufReader<TcpStream>,
    framing: Framing,
    keep: bool,
}

/// What is asked.
pub(crate) struct Exchange<'a> {
    pub(crate) method: &'a str,
    pub(crate) target: &'a str,
    pub(crate) accept: &'a str,
    pub(crate) body: &'a [u8],
}

impl Connection {
    pub(crate) fn open(host: &Host) -> Result<Self, HttpError> {
        let refused = |source| HttpError::Connect { address: host.0.clone(), source };
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in host.0.to_socket_addrs().map_err(refused)? {
            match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
                Ok(stream) => {
                    stream.set_nodelay(true).map_err(refused)?;
                    return Ok(Self {
                        host: host.clone(),
                        reader: BufReader::new(stream),
                        framing: Framing::Done,
                        keep: true,
                    });
                }
                Err(error) => last = error,
            }
        }
        Err(refused(last))
    }

    /// Sends a request and reads the head of the answer: its status.
    pub(crate) fn send(
        &mut self,
        exchange: &Exchange<'_>,
        timeout: Duration,
    ) -> Result<u16, HttpError> {
        self.write(exchange, timeout).map_err(|error| self.host.failed(error))?;
        self.read_head()
    }

    fn write(&mut self, exchange: &Exchange<'_>, timeout: Duration) -> io::Result<()> {
        let Exchange { method, target, accept, body } = exchange;
        let stream = self.reader.get_mut();
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let mut message = format!(
            "{method} {target} HTTP/1.1\r\nhost: {host}\r\naccept: {accept}\r\n",
            host = self.host.0
        );
        if *method == "POST" {
            message.push_str("content-type: application/json\r\n");
            message.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        message.push_str("\r\n");
        let mut bytes = message.into_bytes();
        bytes.extend_from_slice(body);
        stream.write_all(&bytes)
    }

    fn read_head(&mut self) -> Result<u16, HttpError> {
        let mut budget = HEAD_BYTES_MAX;
        let status_line = self.line(&mut budget)?;
        let status = status_line
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.split(' ').nth(1))
            .and_then(|status| status.parse().ok())
            .ok_or(HttpError::Malformed { what: "no status line" })?;
        self.framing = if status == 204 { Framing::Done } else { Framing::Close };
        self.keep = status_line.starts_with("HTTP/1.1");
        loop {
            let line = self.line(&mut budget)?;
            if line.is_empty() {
                break;
            }
            let (name, value) =
                line.split_once(':').ok_or(HttpError::Malformed { what: "no header" })?;
            self.header(&name.to_ascii_lowercase(), value.trim())?;
        }
        if matches!(self.framing, Framing::Close) {
            self.keep = false;
        }
        Ok(status)
    }

    fn header(&mut self, name: &str, value: &str) -> Result<(), HttpError> {
        match name {
            "content-length" => {
                let length =
                    value.parse().map_err(|_| HttpError::Malformed { what: "no length" })?;
                self.framing = Framing::Length(length);
            }
            "transfer-encoding" if value.eq_ignore_ascii_case("chunked") => {
                self.framing = Framing::Chunked { left: 0, first: true };
            }
            "transfer-encoding" => {
                return Err(HttpError::Malformed {
                    what: "a transfer encoding that is not chunked",
                });
            }
            "connection" if value.eq_ignore_ascii_case("close") => self.keep = false,
            _ => {}
        }
        Ok(())
    }

    /// A line without its end, taken from a budget of bytes.
    fn line(&mut self, budget: &mut u64) -> Result<String, HttpError> {
        let mut line = Vec::new();
        let read = (&mut self.reader).take(*budget).read_until(b'\n', &mut line);
        let read = read.map_err(|error| self.host.failed(error))?;
        *budget = budget.saturating_sub(u64::try_from(read).unwrap_or(u64::MAX));
        if line.is_empty() && *budget > 0 {
            return Err(self.host.failed(io::ErrorKind::UnexpectedEof.into()));
        }
        let text =
            line.strip_suffix(b"\n").ok_or(HttpError::Malformed { what: "an endless line" })?;
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        String::from_utf8(text.to_vec()).map_err(|_| HttpError::Malformed { what: "not text" })
    }

    /// Reads the whole body of the answer.
    pub(crate) fn body(&mut self, max: u64) -> Result<Vec<u8>, HttpError> {
        let mut body = Vec::new();
        let read = (&mut *self).take(max + 1).read_to_end(&mut body);
        if let Err(error) = read {
            return Err(self.host.failed(error));
        }
        if u64::try_from(body.len()).unwrap_or(u64::MAX) > max {
            self.keep = false;
            return Err(HttpError::TooLarge { max });
        }
        Ok(body)
    }

    /// Whether another request can be sent.
    pub(crate) fn is_reusable(&self) -> bool {
        self.keep && matches!(self.framing, Framing::Done)
    }

    /// Moves to the next chunk; gives the bytes left in it, 0 at the end of the body.
    fn next_chunk(&mut self, first: bool) -> Result<u64, HttpError> {
        let mut budget = CHUNK_LINE_BYTES_MAX;
        if !first && !self.line(&mut budget)?.is_empty() {
            return Err(HttpError::Malformed { what: "a chunk without its end" });
        }
        let line = self.line(&mut budget)?;
        let digits = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(digits, 16)
            .map_err(|_| HttpError::Malformed { what: "a chunk without its size" })?;
        if size == 0 {
            let mut budget = HEAD_BYTES_MAX;
            for _ in 0..TRAILER_LINES_MAX {
                if self.line(&mut budget)?.is_empty() {
                    return Ok(0);
                }
            }
            return Err(HttpError::Malformed { what: "too many trailers" });
        }
        Ok(size)
    }
}

/// Reads the body of the present answer.
impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = match self.framing {
            Framing::Done | Framing::Length(0) => {
                self.framing = Framing::Done;
                return Ok(0);
            }
            Framing::Close => u64::MAX,
            Framing::Length(left) => left,
            Framing::Chunked { left: 0, first } => {
                let left = self.next_chunk(first).map_err(io::Error::other)?;
                if left == 0 {
                    self.framing = Framing::Done;
                    return Ok(0);
                }
                self.framing = Framing::Chunked { left, first: false };
                left
            }
            Framing::Chunked { left, .. } => left,
        };
        let read = (&mut self.reader).take(left).read(buffer)?;
        let count = u64::try_from(read).unwrap_or(u64::MAX);
        if read == 0 && !buffer.is_empty() {
            if matches!(self.framing, Framing::Close) {
                self.framing = Framing::Done;
                return Ok(0);
            }
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match &mut self.framing {
            Framing::Length(left) | Framing::Chunked { left, .. } => {
                *left = left.saturating_sub(count);
            }
            Framing::Close | Framing::Done => {}
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::{Connection, Exchange, Host, HttpError};
    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        time::Duration,
    };

    /// Serves one connection with fixed bytes and reads what a client makes of them.
    fn check(answer: &'static [u8]) -> Result<(u16, Vec<u8>, bool), HttpError> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let host = Host::parse(&listener.local_addr().expect("bound").to_string())?;
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("one client");
            let mut request = [0; 1024];
            let _read = stream.read(&mut request).expect("a request");
            stream.write_all(answer).expect("the client reads");
        });
        let mut connection = Connection::open(&host)?;
        let exchange = Exchange { method: "GET", target: "/", accept: "*/*", body: b"" };
        let status = connection.send(&exchange, Duration::from_secs(5));
        let result = status.and_then(|status| {
            let body = connection.body(1_000)?;
            Ok((status, body, connection.is_reusable()))
        });
        server.join().expect("the server ends");
        result
    }

    #[test]
    fn host_of_several_forms_is_read() {
        for text in ["127.0.0.1:80", "http://127.0.0.1:80", "http://127.0.0.1:80/"] {
            assert_eq!(Host::parse(text).expect("an address").as_str(), "127.0.0.1:80");
        }
        for text in ["https://a:1", "a", "http://a:1/rpc", "", "http://"] {
            assert!(matches!(Host::parse(text), Err(HttpError::Address { .. })), "{text}");
        }
    }

    #[test]
    fn body_with_length_is_read_and_connection_kept() {
        let (status, body, keep) =
            check(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").expect("fine");
        assert_eq!((status, &body[..], keep), (200, &b"abc"[..], true));
    }

    #[test]
    fn body_in_chunks_is_read_and_connection_kept() {
        let (status, body, keep) = check(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
              2\r\nab\r\n1;x\r\nc\r\n0\r\n\r\n",
        )
        .expect("fine");
        assert_eq!((status, &body[..], keep), (200, &b"abc"[..], true));
    }

    #[test]
    fn body_until_the_end_closes_the_connection() {
        let (status, body, keep) = check(b"HTTP/1.1 404 No\r\n\r\nabc").expect("fine");
        assert_eq!((status, &body[..], keep), (404, &b"abc"[..], false));
    }

    #[test]
    fn answers_that_are_not_http_are_refused() {
        for answer in [
            &b""[..],
            b"hello\r\n\r\n",
            b"HTTP/1.1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        ] {
            assert!(check(answer).is_err(), "{:?}", String::from_utf8_lossy(answer));
        }
    }

    #[test]
    fn body_beyond_the_limit_is_refused() {
        static LONG: [u8; 5_000] = {
            let mut bytes = [b'x'; 5_000];
            let head = b"HTTP/1.1 200 OK\r\n\r\n";
            let mut place = 0;
            while place < head.len() {
                bytes[place] = head[place];
                place += 1;
            }
            bytes
        };
        assert!(matches!(check(&LONG), Err(HttpError::TooLarge { max: 1_000 })));
    }
}
