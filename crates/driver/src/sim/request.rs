//! Requests to a simulated store, copied from the client's buffers.

use kvmark_plan::{Each, Generator, Kind, Statement};

use crate::{Call, Columns, Expected, Request, Slot};

/// A statement's effect on records, derived from its arguments, because a simulated store has no
/// language.
#[derive(Debug)]
pub(super) struct StatementForm {
    /// The argument that is a record's key; a statement without it touches no record.
    key: Option<Slot>,
    /// Arguments that are values of a field, each with the field.
    values: Vec<(Slot, u32)>,
    /// Places in a reply that are fields, each with the field.
    returned: Vec<(u32, u32)>,
}

impl StatementForm {
    pub(super) fn of(statement: &Statement) -> Self {
        let mut places = [0; 3];
        let mut form = Self { key: None, values: Vec::new(), returned: Vec::new() };
        for argument in &statement.arguments {
            let place = &mut places[argument.each as usize];
            let slot = Slot { each: argument.each, place: *place };
            *place += 1;
            match argument.generator {
                Generator::Key => form.key = form.key.or(Some(slot)),
                Generator::Field { field } => form.values.push((slot, field)),
                _ => {}
            }
        }
        let field = |index: &u32| match statement.arguments[*index as usize].generator {
            Generator::Field { field } => Some(field),
            _ => None,
        };
        let places = (0..).zip(&statement.expects);
        form.returned = places.filter_map(|(place, index)| Some((place, field(index)?))).collect();
        form
    }

    fn command(&self, kind: Kind, call: &Call<'_>, number: usize, key: Slot) -> StoreCommand {
        let (_, items) = call.commands[number];
        let has_value = |slot: &Slot| slot.each != Each::Item || items > 0;
        let values = self.values.iter().filter(|(slot, _)| has_value(slot));
        let value =
            |(slot, field): &(Slot, u32)| (*field, call.argument(*slot, number, 0).1.into());
        let writes = matches!(kind, Kind::Insert | Kind::Update);
        StoreCommand {
            key: call.argument(key, number, 0).1.into(),
            values: if writes { values.map(value).collect() } else { Vec::new() },
        }
    }
}

/// A request to a store with its own bytes.
#[derive(Debug)]
pub(super) struct StoreRequest {
    pub(super) kind: Kind,
    pub(super) commands: Vec<StoreCommand>,
    pub(super) scan_length: u64,
    /// Whether the reply has the values.
    pub(super) wants_values: bool,
    /// The properties that a record must have when it is read.
    pub(super) expected: Option<Expected>,
    /// Fields that a read returns, each after the number of its cell; `None` for all fields under
    /// their own numbers.
    pub(super) returned: Option<Vec<(u32, u32)>>,
    /// Number of returned records if it accesses none by key.
    pub(super) rows: u64,
}

/// One command: the record, and the fields that it writes.
#[derive(Debug)]
pub(super) struct StoreCommand {
    pub(super) key: Vec<u8>,
    pub(super) values: Vec<(u32, Vec<u8>)>,
}

impl StoreRequest {
    pub(super) fn of(request: &Request<'_>, forms: &[StatementForm]) -> Self {
        let own = Self {
            kind: request.kind,
            commands: Vec::new(),
            scan_length: request.scan_length,
            wants_values: request.wants_values,
            expected: request.expected.copied(),
            returned: None,
            rows: 1,
        };
        let Some(call) = request.statement else {
            let values = request.values.iter().map(|(field, value)| (field, value.into()));
            let key = request.key.into();
            let returned = match request.columns {
                Columns::All | Columns::AllByName => None,
                Columns::One(field) => Some(vec![(field, field)]),
            };
            let commands = vec![StoreCommand { key, values: values.collect() }];
            return Self { commands, returned, ..own };
        };
        let form = &forms[call.statement as usize];
        let numbers = 0..call.commands.len();
        let command =
            |key| numbers.clone().map(move |number| form.command(own.kind, &call, number, key));
        Self {
            commands: form.key.into_iter().flat_map(command).collect(),
            returned: Some(form.returned.clone()),
            rows: call.commands.len() as u64,
            ..own
        }
    }

    /// Whether it changes records.
    pub(super) fn writes(&self) -> bool {
        matches!(self.kind, Kind::Insert | Kind::Update | Kind::Delete)
    }
}
