//! A collector that takes OTLP over HTTP, written from the specification.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread;

use flate2::read::GzDecoder;
use prost::Message;

use super::received::Inbox;

/// Serves as long as the test process lives; gives the endpoint.
pub(crate) fn collector(inbox: &Inbox) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let inbox = inbox.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let inbox = inbox.clone();
            thread::spawn(move || serve(stream.unwrap(), &inbox));
        }
    });
    endpoint
}

pub(crate) fn serve(stream: impl Read + Write, inbox: &Inbox) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = Request::read(&mut stream) {
        request.file(inbox);
        stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    }
}

struct Request {
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// Nothing when the client has no more.
    fn read(reader: &mut impl BufRead) -> Option<Self> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let target = lines[0].strip_prefix("POST ").unwrap().split(' ').next().unwrap().to_owned();
        let header = |line: &String| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        let mut request = Self { target, headers: lines[1..].iter().map(header).collect(), body: Vec::new() };
        request.body = vec![0; request.header("content-length").parse().unwrap()];
        reader.read_exact(&mut request.body).unwrap();
        if request.header("content-encoding") == "gzip" {
            let mut unpacked = Vec::new();
            GzDecoder::new(&request.body[..]).read_to_end(&mut unpacked).unwrap();
            request.body = unpacked;
        }
        Some(request)
    }

    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(header, _)| header == name).map_or("", |(_, value)| value)
    }

    fn file(&self, inbox: &Inbox) {
        assert_eq!(self.header("content-type"), "application/x-protobuf");
        let mut inbox = inbox.lock().unwrap();
        inbox.teams.push(format!("{} {}", self.header("x-team"), self.header("content-encoding")));
        match &*self.target {
            "/v1/traces" => inbox.traces.push(Message::decode(&self.body[..]).unwrap()),
            "/v1/metrics" => inbox.metrics.push(Message::decode(&self.body[..]).unwrap()),
            other => panic!("nobody sends to {other}"),
        }
    }
}
