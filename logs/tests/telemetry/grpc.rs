//! A collector that takes OTLP over gRPC, written from the specification: HTTP/2 requests whose body is one message with a
//! prefix of five bytes (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>).

use std::io::Read;
use std::thread;

use flate2::read::GzDecoder;
use h2::RecvStream;
use h2::server::SendResponse;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Response};
use opentelemetry_http::Bytes;
use prost::Message;
use tokio::net::{TcpListener, TcpStream};

use super::received::Inbox;

/// Not compressed, and no bytes: the answer to every request.
const EMPTY_MESSAGE: [u8; 5] = [0; 5];

/// Serves as long as the test process lives; gives the endpoint.
pub(crate) fn collector(inbox: &Inbox) -> String {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let inbox = inbox.clone();
    thread::spawn(move || {
        runtime.block_on(async {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, inbox.clone()));
            }
        });
    });
    endpoint
}

async fn serve(stream: TcpStream, inbox: Inbox) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    // The connection moves only while somebody waits for the next request, so a request is read in its own task.
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(answer(request, respond, inbox.clone()));
    }
}

async fn answer(request: Request<RecvStream>, mut respond: SendResponse<Bytes>, inbox: Inbox) {
    let (head, mut body) = request.into_parts();
    let mut bytes = Vec::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.unwrap();
        body.flow_control().release_capacity(chunk.len()).unwrap();
        bytes.extend_from_slice(&chunk);
    }
    file(&head, &bytes, &inbox);
    let response = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
    let mut stream = respond.send_response(response, false).unwrap();
    stream.send_data(Bytes::from_static(&EMPTY_MESSAGE), false).unwrap();
    let status = HeaderMap::from_iter([("grpc-status".parse().unwrap(), HeaderValue::from_static("0"))]);
    stream.send_trailers(status).unwrap();
}

fn file(head: &Parts, body: &[u8], inbox: &Inbox) {
    let header = |name| head.headers.get(name).map_or("", |value| value.to_str().unwrap());
    assert_eq!(header("content-type"), "application/grpc");
    let message = message(body);
    let mut inbox = inbox.lock().unwrap();
    inbox.teams.push(format!("{} {}", header("x-team"), header("grpc-encoding")));
    match head.uri.path() {
        "/opentelemetry.proto.collector.trace.v1.TraceService/Export" => {
            inbox.traces.push(Message::decode(&message[..]).unwrap());
        }
        "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export" => {
            inbox.metrics.push(Message::decode(&message[..]).unwrap());
        }
        other => panic!("nobody sends to {other}"),
    }
}

/// A byte that says whether it is compressed, the length in four bytes, and the message.
fn message(body: &[u8]) -> Vec<u8> {
    let (prefix, message) = body.split_at(EMPTY_MESSAGE.len());
    assert_eq!(prefix[1..], u32::try_from(message.len()).unwrap().to_be_bytes());
    if prefix[0] == 0 {
        return message.to_vec();
    }
    let mut unpacked = Vec::new();
    GzDecoder::new(message).read_to_end(&mut unpacked).unwrap();
    unpacked
}
