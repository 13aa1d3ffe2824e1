//! What a client asks of the cluster, as a future of the `scylla` crate's.

use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::future::join_all;
use kvmark_driver::{Call, OpenError, Reply, Request};
use kvmark_plan::{Kind, Outcome};
use scylla::frame::response::result::ColumnSpec;
use scylla::response::PagingState;
use scylla::response::query_result::{QueryResult, QueryRowsResult};
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;

use crate::answer::{applied, maybe_rows, rows, take_cells};
use crate::counters::Counters;
use crate::decode;
use crate::failure::Failure;
use crate::link::Link;
use crate::records::{Records, Row, ScanRow};
use crate::schema::Prepare;
use crate::settings::Settings;
use crate::statement::{Bound, Prepared};

/// A worker's connections to every node, which its clients share, and what it prepared on them.
pub(crate) struct Calls {
    link: Link,
    settings: Arc<Settings>,
    /// The statements of YCSB's table, where there is one.
    records: Option<Records>,
    statements: Vec<Prepared>,
    counters: Arc<Counters>,
}

impl Calls {
    pub(crate) async fn open(
        settings: &Arc<Settings>,
        prepare: &Prepare,
        counters: &Arc<Counters>,
    ) -> Result<Self, OpenError> {
        let hosts = settings.address.hosts();
        let link = Link::open(settings, prepare.keyspace.as_deref(), counters)
            .await
            .map_err(|failure| failure.at(&hosts))?;
        let (records, statements) = prepare.carry_out(&link.session(), settings).await?;
        let (settings, counters) = (Arc::clone(settings), Arc::clone(counters));
        Ok(Self { link, settings, records, statements, counters })
    }

    /// A failure as it may be told of.
    pub(crate) fn without_secret(&self, failure: &Failure) -> Failure {
        Failure::new(failure.outcome, self.settings.without_secret(&failure.text))
    }

    /// Carries out a request and fills the reply, which is empty.
    pub(crate) async fn call(
        &self,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> Result<Outcome, Failure> {
        if let Some(call) = &request.statement {
            return self.statement(request, call, reply).await;
        }
        let records = self.records.as_ref().ok_or_else(|| {
            let text = "there is no table with YCSB's columns: make it in the workload's \
                        preparation or use statements only";
            Failure::new(Outcome::Refused, text)
        })?;
        match request.kind {
            Kind::Read => {
                let select = records.read(request.columns);
                let row = Row::of_key(request.key);
                let rows = rows(self.execute_once(&select.prepared, &row).await?)?;
                select.take(&rows, request.wants_values, reply)?;
                Ok(if reply.rows > 0 { Outcome::Ok } else { Outcome::Miss })
            }
            Kind::Scan => {
                let select = records.scan(request.columns);
                let row = ScanRow { key: request.key, length: request.scan_length };
                let take = |rows: &QueryRowsResult| select.take(rows, request.wants_values, reply);
                self.pages(&select.prepared, &row, true, take).await?;
                Ok(Outcome::Ok)
            }
            Kind::Update | Kind::Insert | Kind::Delete => {
                let (prepared, row) = records.write(request)?;
                self.execute_once(prepared, &row).await?;
                Ok(Outcome::Ok)
            }
            Kind::ReadModifyWrite => {
                let text = "a read-modify-write is executed as a read and an update";
                Err(Failure::new(Outcome::Refused, text))
            }
        }
    }

    async fn execute_once(
        &self,
        prepared: &PreparedStatement,
        values: &impl SerializeRow,
    ) -> Result<QueryResult, Failure> {
        let result =
            self.link.send(async |session| session.execute_unpaged(prepared, values).await);
        let result = result.await?;
        self.count_warnings(&result);
        Ok(result)
    }

    fn count_warnings(&self, result: &QueryResult) {
        result.warnings().for_each(|text| self.counters.warned(text));
    }

    /// Fetches one page, or all of them in turn.
    async fn pages(
        &self,
        prepared: &PreparedStatement,
        values: &impl SerializeRow,
        all: bool,
        mut take: impl FnMut(&QueryRowsResult) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut state = PagingState::start();
        loop {
            let page = self.link.send(async |session| {
                session.execute_single_page(prepared, values, state.clone()).await
            });
            let (result, next) = page.await?;
            self.count_warnings(&result);
            take(&rows(result)?)?;
            match next.into_paging_control_flow() {
                ControlFlow::Continue(next) if all => state = next,
                _ => return Ok(()),
            }
        }
    }

    /// Carries out a statement: its commands in one batch or at the same time.
    async fn statement(
        &self,
        request: &Request<'_>,
        call: &Call<'_>,
        reply: &mut Reply,
    ) -> Result<Outcome, Failure> {
        let prepared = &self.statements[call.statement as usize];
        let commands = call.commands.len();
        let outcome = if let Some(batch) = prepared.batch(commands) {
            let texts =
                |command| prepared.texts.iter().map(move |text| Bound { text, call, command });
            let values: Vec<_> = (0..commands).flat_map(texts).collect();
            let result = self.link.send(async |session| session.batch(&batch, &values).await);
            let result = result.await?;
            self.count_warnings(&result);
            let done = written(result)?;
            reply.rows = if done { commands as u64 } else { 0 };
            if done { Outcome::Ok } else { Outcome::Miss }
        } else if commands == 1 {
            self.command(prepared, call, 0, request.wants_values, reply).await?
        } else {
            self.commands(prepared, call, request.wants_values, reply).await?
        };
        let is_missing = request.kind == Kind::Read && reply.rows == 0;
        Ok(if outcome == Outcome::Ok && is_missing { Outcome::Miss } else { outcome })
    }

    /// All commands at the same time, with their replies in order.
    async fn commands(
        &self,
        prepared: &Prepared,
        call: &Call<'_>,
        wants_values: bool,
        reply: &mut Reply,
    ) -> Result<Outcome, Failure> {
        let commands = (0..call.commands.len()).map(async |command| {
            let mut own = Reply::default();
            let outcome = self.command(prepared, call, command, wants_values, &mut own).await;
            outcome.map(|outcome| (outcome, own))
        });
        let mut worst = Outcome::Ok;
        for done in join_all(commands).await {
            let (outcome, own) = done?;
            let first = u32::try_from(reply.rows).unwrap_or(u32::MAX);
            for cell in &own.cells {
                reply.push(first.saturating_add(cell.row), cell.field, own.bytes_of(cell));
            }
            reply.rows += own.rows;
            if outcome != Outcome::Ok {
                worst = outcome;
            }
        }
        Ok(worst)
    }

    /// One command: its texts one after the other.
    async fn command(
        &self,
        prepared: &Prepared,
        call: &Call<'_>,
        command: usize,
        wants_values: bool,
        reply: &mut Reply,
    ) -> Result<Outcome, Failure> {
        let mut outcome = Outcome::Ok;
        let mut selects = false;
        for text in &prepared.texts {
            let values = Bound { text, call, command };
            if text.is_select {
                selects = true;
                let take = |rows: &QueryRowsResult| take_page(rows, wants_values, reply);
                self.pages(&text.prepared, &values, prepared.all_pages, take).await?;
            } else if !written(self.execute_once(&text.prepared, &values).await?)? {
                outcome = Outcome::Miss;
            }
        }
        if !selects && outcome == Outcome::Ok {
            reply.rows += 1;
        }
        Ok(outcome)
    }
}

/// Takes a page of a statement's rows.
fn take_page(rows: &QueryRowsResult, wants_values: bool, reply: &mut Reply) -> Result<(), Failure> {
    let append = |column: &ColumnSpec<'_>, value: &[u8], output: &mut Vec<u8>| {
        decode::append(column.typ(), value, output);
    };
    if wants_values {
        take_cells(rows, reply, |column| u32::try_from(column).ok(), append)?;
    }
    reply.rows += rows.rows_num() as u64;
    Ok(())
}

/// Whether a write was done; one with a condition that didn't hold wasn't.
fn written(result: QueryResult) -> Result<bool, Failure> {
    match maybe_rows(result)? {
        Some(rows) => Ok(applied(&rows)?.unwrap_or(true)),
        None => Ok(true),
    }
}
