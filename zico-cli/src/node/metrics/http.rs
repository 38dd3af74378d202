//! As much of HTTP/1 as one who asks for a page needs: a request, an answer, the end.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

/// The longest head of a request, in bytes.
const LONGEST: usize = 8 << 10;
/// The most header lines.
const HEADERS: usize = 64;
/// How long one connection may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// What text for people is.
const PLAIN: &str = "text/plain; charset=utf-8";
/// What metrics are.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is answered.
#[derive(Debug)]
pub(super) enum Answer {
    /// In Prometheus' text format.
    Metrics(String),
    /// For people.
    Text(&'static str),
    /// There is no such page.
    NotFound,
    /// The broker does not answer.
    Unavailable,
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    path: String,
    /// The head of the answer alone.
    is_head: bool,
}

/// Serves one connection, and ends it.
pub(super) fn serve(stream: &TcpStream, answer: impl FnOnce(&str) -> Answer) -> io::Result<()> {
    let mut stream = Within { stream, until: Instant::now() + PATIENCE };
    let (head, body) = match read(&mut stream)? {
        Err(status) => page(status, PLAIN, ""),
        Ok(asked) => {
            let (head, body) = respond(&answer(&asked.path));
            if asked.is_head { (head, String::new()) } else { (head, body) }
        }
    };
    stream.write_all((head + &body).as_bytes())?;
    stream.stream.shutdown(Shutdown::Write)
}

/// A connection up to a point in time, however slow the other side is.
struct Within<'s> {
    stream: &'s TcpStream,
    until: Instant,
}

impl Within<'_> {
    fn rest(&self) -> io::Result<Duration> {
        let rest = self.until.saturating_duration_since(Instant::now());
        if rest.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(rest) }
    }
}

impl Read for Within<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.rest()?))?;
        self.stream.read(bytes)
    }
}

impl Write for Within<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.rest()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The head of a request, or the status with which it is refused.
fn read(stream: &mut impl Read) -> io::Result<Result<Asked, &'static str>> {
    let mut bytes = Vec::new();
    let mut part = [0; 1024];
    while bytes.len() <= LONGEST {
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => bytes.extend_from_slice(&part[..read]),
        }
        if let Some(asked) = parse(&bytes) {
            return Ok(asked);
        }
    }
    Ok(Err("431 Request Header Fields Too Large"))
}

/// What is asked for; none if the head is not complete.
fn parse(bytes: &[u8]) -> Option<Result<Asked, &'static str>> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) => None,
        Ok(httparse::Status::Complete(_)) => {
            let path = request.path.unwrap_or_default();
            let path = path.split_once('?').map_or(path, |(path, _)| path).to_owned();
            Some(match request.method {
                Some("GET") => Ok(Asked { path, is_head: false }),
                Some("HEAD") => Ok(Asked { path, is_head: true }),
                _ => Err("405 Method Not Allowed"),
            })
        }
        Err(_) => Some(Err("400 Bad Request")),
    }
}

fn respond(answer: &Answer) -> (String, String) {
    match answer {
        Answer::Metrics(text) => page("200 OK", METRICS, text),
        Answer::Text(text) => page("200 OK", PLAIN, text),
        Answer::NotFound => page("404 Not Found", PLAIN, "metrics are at /metrics\n"),
        Answer::Unavailable => {
            page("503 Service Unavailable", PLAIN, "the broker does not answer\n")
        }
    }
}

/// The head of an answer, and its body.
fn page(status: &str, kind: &str, body: &str) -> (String, String) {
    let len = body.len();
    // Of a method that is not allowed it has to be said which ones are.
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\n{allow}Content-Type: {kind}\r\nContent-Length: {len}\r\n\
         Connection: close\r\n\r\n"
    );
    (head, body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_in_whatever_pieces_and_never_without_end() {
        let ask = |text: &str| read(&mut text.as_bytes());
        let get = |path: &str| Asked { path: path.to_owned(), is_head: false };
        assert_eq!(ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap(), Ok(get("/metrics")));
        assert_eq!(ask("GET /metrics?a=b HTTP/1.0\r\n\r\n").unwrap(), Ok(get("/metrics")));
        assert!(ask("HEAD / HTTP/1.1\r\n\r\n").unwrap().unwrap().is_head);
        assert_eq!(ask("POST / HTTP/1.1\r\n\r\n").unwrap(), Err("405 Method Not Allowed"));
        assert_eq!(ask("\u{16}\u{3}\u{1} hello").unwrap(), Err("400 Bad Request"));
        assert!(ask("GET / HTTP/1.1\r\n").is_err(), "it has hung up");
        let endless = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(100_000));
        assert!(ask(&endless).unwrap().unwrap_err().starts_with("431"));
        // A byte at a time.
        struct Slow<'t>(std::slice::Iter<'t, u8>);
        impl Read for Slow<'_> {
            fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
                Ok(self.0.next().map_or(0, |&byte| {
                    bytes[0] = byte;
                    1
                }))
            }
        }
        let text = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        assert_eq!(read(&mut Slow(text.iter())).unwrap(), Ok(get("/metrics")));
    }

    #[test]
    fn an_answer_says_how_long_it_is() {
        let (head, body) = respond(&Answer::Metrics("zico_jobs 1\n".to_owned()));
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        assert!(head.contains("version=0.0.4"), "{head}");
        assert!(page("405 Method Not Allowed", PLAIN, "").0.contains("Allow: GET, HEAD\r\n"));
    }
}
