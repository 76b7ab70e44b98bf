//! A collector that takes OTLP over gRPC.

use std::thread;

use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use super::received::Inbox;

/// Serves as long as the test process lives; gives the endpoint.
pub(crate) fn collector(inbox: &Inbox) -> String {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (traces, metrics) = (Collector(inbox.clone()), Collector(inbox.clone()));
    thread::spawn(move || {
        let traces = TraceServiceServer::new(traces).accept_compressed(CompressionEncoding::Gzip);
        let metrics = MetricsServiceServer::new(metrics).accept_compressed(CompressionEncoding::Gzip);
        let server = Server::builder().add_service(traces).add_service(metrics);
        runtime.block_on(server.serve_with_incoming(TcpListenerStream::new(listener))).unwrap();
    });
    endpoint
}

struct Collector(Inbox);

impl Collector {
    fn note(&self, headers: &MetadataMap) {
        let header = |name| headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned();
        self.0.lock().unwrap().teams.push(format!("{} {}", header("x-team"), header("grpc-encoding")));
    }
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.note(request.metadata());
        self.0.lock().unwrap().traces.push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        self.note(request.metadata());
        self.0.lock().unwrap().metrics.push(request.into_inner());
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}
