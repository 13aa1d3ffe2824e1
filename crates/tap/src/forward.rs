//! The connections of one thread. Bytes are forwarded first and recorded afterwards.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::TcpStream as StdStream;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::try_join;
use kvmark_driver_server::framed::Stream;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

use crate::connection::Connection;
use crate::recorder::Recorder;
use crate::report::TapReport;
use crate::settings::Settings;

/// Buffer size of a read.
const ROOM: usize = 64 << 10;
/// Time limit to connect to the server.
const REACH: Duration = Duration::from_secs(2);
/// Interval of the recorder's clock checks.
const TICK: Duration = Duration::from_millis(500);
/// At the end, outstanding replies are awaited for this many pauses of this length.
const LAST: Duration = Duration::from_millis(20);
const LASTS: u32 = 50;

/// State shared by the connections of a thread.
struct Thread {
    settings: Settings,
    recorder: Rc<RefCell<Recorder>>,
    /// The read buffer. Bytes are forwarded at once, so connections share it.
    room: RefCell<Box<[u8]>>,
}

/// Forwards the clients' connections until the channel is closed. Returns the thread's report.
pub(crate) fn run(
    settings: Settings,
    recorder: Recorder,
    mut clients: UnboundedReceiver<StdStream>,
) -> io::Result<TapReport> {
    let recorder = Rc::new(RefCell::new(recorder));
    let room = RefCell::new(vec![0; ROOM].into_boxed_slice());
    let thread = Rc::new(Thread { settings, recorder: Rc::clone(&recorder), room });
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let tasks = LocalSet::new();
    tasks.block_on(&runtime, async {
        spawn_local(tick(Rc::clone(&recorder)));
        while let Some(client) = clients.recv().await {
            spawn_local(serve(client, Rc::clone(&thread)));
        }
        for _ in 0..LASTS {
            if recorder.borrow().is_idle() {
                break;
            }
            sleep(LAST).await;
        }
    });
    // Ends all connections.
    drop((tasks, thread));
    let recorder = Rc::try_unwrap(recorder).map_err(|_| io::Error::other("a task is left"))?;
    Ok(recorder.into_inner().finish())
}

async fn tick(recorder: Rc<RefCell<Recorder>>) {
    loop {
        sleep(TICK).await;
        let recorder = &mut *recorder.borrow_mut();
        let now_ns = recorder.shared.now_ns();
        recorder.tick(now_ns);
    }
}

async fn serve(client: StdStream, thread: Rc<Thread>) {
    thread.recorder.borrow_mut().report.connections += 1;
    let Settings { target, tls, protocol, .. } = &thread.settings;
    let reached = match timeout(REACH, Stream::reach(target, tls.as_ref())).await {
        Ok(reached) => reached.map_err(|problem| problem.text),
        Err(_) => Err(format!("no answer within {} s", REACH.as_secs())),
    };
    let server = match reached {
        Ok(server) => server,
        Err(why) => {
            let report = &mut thread.recorder.borrow_mut().report;
            report.unreachable += 1;
            report.first_unreachable.get_or_insert(why);
            return;
        }
    };
    let Ok(client) = TcpStream::from_std(client) else { return };
    let connection = Connection::new(*protocol, Rc::clone(&thread.recorder));
    let connection = RefCell::new(connection);
    // A failure in one direction ends both, as it does without a tap.
    let ended = match server {
        Stream::Plain(server) => {
            let (from, to) = server.into_split();
            both(client, from, to, &connection, &thread).await
        }
        server => {
            let (from, to) = tokio::io::split(server);
            both(client, from, to, &connection, &thread).await
        }
    };
    drop(ended);
    connection.into_inner().end();
    let recorder = &mut *thread.recorder.borrow_mut();
    let now_ns = recorder.shared.now_ns();
    recorder.release(now_ns);
}

async fn both(
    client: TcpStream,
    server_input: impl AsyncRead + Unpin,
    server_output: impl AsyncWrite + Unpin,
    connection: &RefCell<Connection>,
    thread: &Thread,
) -> io::Result<()> {
    let (client_input, client_output) = client.into_split();
    let requests = forward_all(client_input, server_output, thread, |bytes, at_ns| {
        connection.borrow_mut().requests(bytes, at_ns);
    });
    let replies = forward_all(server_input, client_output, thread, |bytes, at_ns| {
        connection.borrow_mut().replies(bytes, at_ns);
    });
    try_join(requests, replies).await.map(drop)
}

/// Forwards bytes until the end of the stream, then closes the other side. Nothing more is read
/// while bytes wait to be written.
async fn forward_all(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    thread: &Thread,
    mut record: impl FnMut(&[u8], u64),
) -> io::Result<()> {
    let mut rest = Vec::new();
    loop {
        let step = |context: &mut Context<'_>| {
            forward_once(context, &mut from, &mut to, &mut rest, thread, &mut record)
        };
        let is_open = poll_fn(step).await?;
        if !rest.is_empty() {
            to.write_all(&rest).await?;
            rest = Vec::new();
        }
        to.flush().await?;
        if !is_open {
            return to.shutdown().await;
        }
    }
}

/// Forwards the bytes of one read; false at the end of the stream. Bytes are recorded before the
/// other side can answer them, even if not all of them could be written.
fn forward_once(
    context: &mut Context<'_>,
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    rest: &mut Vec<u8>,
    thread: &Thread,
    record: &mut impl FnMut(&[u8], u64),
) -> Poll<io::Result<bool>> {
    let mut room = thread.room.borrow_mut();
    let mut buffer = ReadBuf::new(&mut room);
    ready!(Pin::new(from).poll_read(context, &mut buffer))?;
    let bytes = buffer.filled();
    if bytes.is_empty() {
        return Poll::Ready(Ok(false));
    }
    let recorder = thread.recorder.borrow();
    let at_ns = recorder.shared.now_ns();
    recorder.shared.bytes.fetch_add(bytes.len() as u64, Relaxed);
    drop(recorder);
    let taken = match Pin::new(to).poll_write(context, bytes) {
        Poll::Ready(taken) => taken?,
        Poll::Pending => 0,
    };
    record(bytes, at_ns);
    rest.extend_from_slice(&bytes[taken..]);
    Poll::Ready(Ok(true))
}
