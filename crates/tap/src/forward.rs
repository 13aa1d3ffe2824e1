//! One thread's connections: bytes go on as they come, and are looked at after that.

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
use crate::settings::Settings;
use crate::told::Told;

/// What is read at once.
const ROOM: usize = 64 << 10;
/// How long the server may take to be reached.
const REACH: Duration = Duration::from_secs(2);
/// How often the recorder looks at its clock.
const TICK: Duration = Duration::from_millis(500);
/// What is under way at the end may take so many pauses of this length.
const LAST: Duration = Duration::from_millis(20);
const LASTS: u32 = 50;

/// What a thread's connections have in common.
struct Thread {
    settings: Settings,
    recorder: Rc<RefCell<Recorder>>,
    /// Bytes that were read and are forwarded at once: no connection keeps any.
    room: RefCell<Box<[u8]>>,
}

/// Forwards what the clients that it's given say, until no more are; what is told then.
pub(crate) fn run(
    settings: Settings,
    recorder: Recorder,
    mut clients: UnboundedReceiver<StdStream>,
) -> io::Result<Told> {
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
    // Connections end here, whatever they wait for.
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
    thread.recorder.borrow_mut().told.connections += 1;
    let Settings { target, tls, spoken, .. } = &thread.settings;
    let reached = match timeout(REACH, Stream::reach(target, tls.as_ref())).await {
        Ok(reached) => reached.map_err(|problem| problem.text),
        Err(_) => Err(format!("it doesn't answer within {} s", REACH.as_secs())),
    };
    let server = match reached {
        Ok(server) => server,
        Err(why) => {
            let told = &mut thread.recorder.borrow_mut().told;
            told.unreachable += 1;
            told.first_unreachable.get_or_insert(why);
            return;
        }
    };
    let Ok(client) = TcpStream::from_std(client) else { return };
    let connection = Connection::new(*spoken, Rc::clone(&thread.recorder));
    let connection = RefCell::new(connection);
    // What breaks one way ends both, as it does without a tap.
    let ended = match server {
        Stream::Tcp(server) => {
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
    server_says: impl AsyncRead + Unpin,
    server_hears: impl AsyncWrite + Unpin,
    connection: &RefCell<Connection>,
    thread: &Thread,
) -> io::Result<()> {
    let (client_says, client_hears) = client.into_split();
    let asks = pass_all(client_says, server_hears, thread, |bytes, at_ns| {
        connection.borrow_mut().requests(bytes, at_ns);
    });
    let answers = pass_all(server_says, client_hears, thread, |bytes, at_ns| {
        connection.borrow_mut().replies(bytes, at_ns);
    });
    try_join(asks, answers).await.map(drop)
}

/// Passes bytes on until their end, and then that. What isn't taken at once is kept, and nothing
/// is read until it is taken.
async fn pass_all(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    thread: &Thread,
    mut look: impl FnMut(&[u8], u64),
) -> io::Result<()> {
    let mut rest = Vec::new();
    loop {
        let pass = |context: &mut Context<'_>| {
            pass(context, &mut from, &mut to, &mut rest, thread, &mut look)
        };
        let goes_on = poll_fn(pass).await?;
        if !rest.is_empty() {
            to.write_all(&rest).await?;
            rest = Vec::new();
        }
        to.flush().await?;
        if !goes_on {
            return to.shutdown().await;
        }
    }
}

/// Passes on what there is to read; false at the end. Bytes are looked at before anything that
/// answers them can be, even if they aren't all taken.
fn pass(
    context: &mut Context<'_>,
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    rest: &mut Vec<u8>,
    thread: &Thread,
    look: &mut impl FnMut(&[u8], u64),
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
    look(bytes, at_ns);
    rest.extend_from_slice(&bytes[taken..]);
    Poll::Ready(Ok(true))
}
