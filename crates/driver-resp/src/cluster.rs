//! A worker's connections to the servers of a Redis Cluster.
//!
//! Each command goes to the server that has its key's slot. The commands of one operation are split
//! by server, sent at once, and their replies put into the operation's order again. `MOVED`
//! corrects the map of the slots, `ASK` doesn't; both send the command again, at most
//! [`REDIRECTIONS`] times. When a connection is lost, owes replies, or a server says that the
//! cluster is down, the map is asked for anew from another server, so that a replica that has taken
//! over is found.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::join_all;
use kvmark_driver::{OpenError, Time};
use kvmark_plan::Outcome;

use crate::address::Target;
use crate::connect::{call, connect, connect_all, in_time};
use crate::connection::Connection;
use crate::failure::Failure;
use crate::options::Settings;
use crate::parcel::{Destination, Parcel, Replies};
use crate::resp::put_all;
use crate::slots::{Redirect, SLOTS, Share, read_shares};

/// Redirections of one operation that are followed.
const REDIRECTIONS: u32 = 5;
/// The pause between two requests for the map.
const PAUSE_NS: u64 = 100_000_000;
/// The slot has no server, as far as known.
const NOBODY: u16 = u16::MAX;

pub(crate) const CLUSTER_SLOTS: [&str; 2] = ["CLUSTER", "SLOTS"];

/// A worker's view of the cluster.
pub(crate) struct Cluster {
    settings: Arc<Settings>,
    time: Rc<dyn Time>,
    /// Connections to each server.
    width: usize,
    /// Every server heard of; an index stays what it is.
    nodes: RefCell<Vec<Rc<Node>>>,
    /// Index of the server that has each slot.
    owners: RefCell<Box<[u16]>>,
    /// Whether a server said that the map can't be right.
    doubted: Cell<bool>,
    next_fetch_ns: Cell<u64>,
    /// Index of the server that was asked for the map last.
    asked: Cell<usize>,
    /// Memory that is used again.
    shelf: RefCell<Vec<Shelf>>,
}

struct Node {
    target: Target,
    connections: Vec<Connection>,
}

/// What an operation needs on its way.
#[derive(Default)]
struct Shelf {
    parcel: Parcel,
    replies: RefCell<Replies>,
    destinations: Vec<Destination>,
}

impl Cluster {
    /// Asks the first of the configured servers that answers for the map, and opens so many
    /// connections to each server that has slots.
    pub(crate) async fn open(
        settings: &Arc<Settings>,
        width: usize,
        time: &Rc<dyn Time>,
    ) -> Result<Self, OpenError> {
        let shares = first_map(settings).await?;
        let cluster = Self {
            settings: Arc::clone(settings),
            time: Rc::clone(time),
            width,
            nodes: RefCell::default(),
            owners: RefCell::new(vec![NOBODY; SLOTS].into()),
            doubted: Cell::new(false),
            next_fetch_ns: Cell::new(0),
            asked: Cell::new(0),
            shelf: RefCell::default(),
        };
        for (_, target) in &shares {
            if cluster.find(target).is_none() {
                let streams = connect_all(settings, target, width).await?;
                let streams = streams.into_iter().map(Some);
                cluster.add(target, streams);
            }
        }
        cluster.adopt(shares);
        Ok(cluster)
    }

    /// Sends the commands that `fill` puts into a parcel, on the connections of this place, and
    /// hands over the replies in order. `redirections` counts those that were followed.
    pub(crate) async fn exchange(
        &self,
        place: usize,
        redirections: &Cell<u32>,
        fill: impl FnOnce(&mut Parcel) -> Result<(), Failure>,
        mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut shelf = self.shelf.borrow_mut().pop().unwrap_or_default();
        let mut result = fill(&mut shelf.parcel);
        if result.is_ok() {
            result = self.deliver(place, redirections, &mut shelf).await;
        }
        if result.is_ok() {
            // The first failure counts, but all replies are taken.
            for reply in shelf.replies.borrow().iter() {
                self.doubt(reply);
                result = result.and(take(reply));
            }
        }
        self.shelf.borrow_mut().push(shelf);
        result
    }

    async fn deliver(
        &self,
        place: usize,
        redirections: &Cell<u32>,
        shelf: &mut Shelf,
    ) -> Result<(), Failure> {
        let Shelf { parcel, replies, destinations } = shelf;
        replies.get_mut().clear(parcel.commands());
        self.route(parcel, place).await?;
        for followed in 0..=REDIRECTIONS {
            parcel.destinations(destinations);
            match destinations.as_slice() {
                [] => return Ok(()),
                [to] => self.ship(place, parcel, *to, replies).await?,
                several => {
                    let ships = several.iter().map(|to| self.ship(place, parcel, *to, replies));
                    join_all(ships).await.into_iter().collect::<Result<(), _>>()?;
                }
            }
            if self.redirect(parcel, &replies.borrow())? {
                redirections.set(redirections.get() + u32::from(followed < REDIRECTIONS));
            }
        }
        parcel.destinations(destinations);
        if destinations.is_empty() {
            return Ok(());
        }
        let text = format!("the servers sent a command on more than {REDIRECTIONS} times");
        Err(Failure::new(Outcome::Unavailable, text))
    }

    /// Says where the pieces go, by a map that is asked for anew if there is reason to.
    async fn route(&self, parcel: &mut Parcel, place: usize) -> Result<(), Failure> {
        for piece in &mut parcel.pieces {
            let mut owner = self.owner(piece.slot());
            let troubled = |node: &Rc<Node>| node.connections[place].is_troubled();
            if owner.as_ref().is_none_or(|(_, node)| troubled(node)) || self.doubted.get() {
                self.fetch(place).await;
                owner = self.owner(piece.slot());
            }
            let (node, _) = owner.ok_or_else(|| {
                let text = format!("no server of the cluster has slot {}", piece.slot());
                Failure::new(Outcome::Unavailable, text)
            })?;
            piece.to = Some(Destination { node, asking: false });
        }
        Ok(())
    }

    /// Sends the pieces for one destination and keeps the replies.
    async fn ship(
        &self,
        place: usize,
        parcel: &Parcel,
        to: Destination,
        replies: &RefCell<Replies>,
    ) -> Result<(), Failure> {
        let node = self.node(to.node);
        let count = u32::try_from(parcel.answered_by(to).count()).unwrap_or(u32::MAX);
        let mut commands = parcel.answered_by(to);
        let keep = |reply: &[u8]| {
            if let Some(Some(command)) = commands.next() {
                replies.borrow_mut().put(command, reply);
            }
            Ok(())
        };
        let put = |output: &mut Vec<u8>| parcel.put(output, to);
        node.connections[place].exchange(count, put, keep).await
    }

    /// Looks for redirections among the replies; whether there are any. What isn't redirected is
    /// done.
    fn redirect(&self, parcel: &mut Parcel, replies: &Replies) -> Result<bool, Failure> {
        let mut any = false;
        for piece in &mut parcel.pieces {
            let Some(from) = piece.to.take() else { continue };
            let asked = self.node(from.node);
            let read = |command| Redirect::read(replies.of(command), &asked.target);
            let Some(redirect) = piece.commands.clone().find_map(read) else { continue };
            if !redirect.moved && piece.commands.len() > 1 {
                let text = "a slot is being moved, which no transaction on it survives";
                return Err(Failure::new(Outcome::Unavailable, text));
            }
            let node = self.find_or_add(&redirect.to);
            if redirect.moved {
                self.owners.borrow_mut()[usize::from(redirect.slot)] = node as u16;
            }
            piece.to = Some(Destination { node, asking: !redirect.moved });
            any = true;
        }
        Ok(any)
    }

    /// Asks a server for the map, unless that was done a moment ago.
    async fn fetch(&self, place: usize) {
        let now_ns = self.time.now_ns();
        if now_ns < self.next_fetch_ns.get() {
            return;
        }
        self.next_fetch_ns.set(now_ns + PAUSE_NS);
        let count = self.nodes.borrow().len();
        let turns = (1..=count).map(|step| (self.asked.get() + step) % count);
        let troubled = |index: &usize| self.node(*index).connections[place].is_troubled();
        let Some(index) = turns.clone().find(|index| !troubled(index)).or(turns.clone().next())
        else {
            return;
        };
        self.asked.set(index);
        let node = self.node(index);
        let mut shares = None;
        let take = |reply: &[u8]| {
            shares = Some(read_shares(reply, &node.target)?);
            Ok(())
        };
        let ask = |output: &mut Vec<u8>| put_all(output, &CLUSTER_SLOTS);
        let answered = node.connections[place].exchange(1, ask, take).await;
        if let (Ok(()), Some(shares)) = (answered, shares) {
            self.doubted.set(false);
            self.adopt(shares);
        }
    }

    fn adopt(&self, shares: Vec<Share>) {
        for (slots, target) in shares {
            let node = self.find_or_add(&target) as u16;
            let slots = usize::from(*slots.start())..usize::from(*slots.end()) + 1;
            if let Some(owners) = self.owners.borrow_mut().get_mut(slots) {
                owners.fill(node);
            }
        }
    }

    /// Doubts the map when a server does.
    fn doubt(&self, reply: &[u8]) {
        if reply.starts_with(b"-CLUSTERDOWN") || reply.starts_with(b"-READONLY") {
            self.doubted.set(true);
        }
    }

    fn owner(&self, slot: u16) -> Option<(usize, Rc<Node>)> {
        let index = usize::from(self.owners.borrow()[usize::from(slot)]);
        self.nodes.borrow().get(index).map(|node| (index, Rc::clone(node)))
    }

    fn node(&self, index: usize) -> Rc<Node> {
        Rc::clone(&self.nodes.borrow()[index])
    }

    fn find(&self, target: &Target) -> Option<usize> {
        self.nodes.borrow().iter().position(|node| node.target == *target)
    }

    /// The index of a server; connections to a new one are opened when they are first used.
    fn find_or_add(&self, target: &Target) -> usize {
        let closed = || (0..self.width).map(|_| None);
        self.find(target).unwrap_or_else(|| self.add(target, closed()))
    }

    fn add(
        &self,
        target: &Target,
        streams: impl Iterator<Item = Option<crate::stream::Stream>>,
    ) -> usize {
        let connection = |stream| {
            let (settings, time) = (Arc::clone(&self.settings), Rc::clone(&self.time));
            Connection::new(stream, target.clone(), settings, time)
        };
        let connections = streams.map(connection).collect();
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(Rc::new(Node { target: target.clone(), connections }));
        nodes.len() - 1
    }
}

/// The map as the first configured server that answers has it.
async fn first_map(settings: &Settings) -> Result<Vec<Share>, OpenError> {
    let mut refusal = None;
    for target in &settings.targets {
        let ask = async {
            let mut stream = connect(settings, target).await?;
            read_shares(&call(&mut stream, &CLUSTER_SLOTS).await?, target)
        };
        match in_time(settings, ask).await {
            Ok(shares) if !shares.is_empty() => return Ok(shares),
            Ok(_) => refusal = Some(no_slots(target)),
            Err(failure) => refusal = Some(failure.at(target)),
        }
    }
    Err(refusal.expect("an address names at least one server"))
}

/// A cluster that can't serve anything.
pub(crate) fn no_slots(target: &Target) -> OpenError {
    let text = format!("the cluster at {target} has no slots yet: give them to its servers first");
    OpenError::System(text)
}
