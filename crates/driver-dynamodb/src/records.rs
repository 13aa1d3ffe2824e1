//! Records in the layout of YCSB's DynamoDB binding: one item per record, whose key and fields are
//! strings. Source: YCSB 0.17.0, `DynamoDBClient`.
//!
//! A scan reads the start record and then pages of the table in the order of the keys' hashes, as
//! in YCSB. In a table with a sort key it reads pages of the partition in the order of the keys.

use std::fmt;
use std::io::Write as _;

use kvmark_driver::{Columns, Layout, Values};
use kvmark_plan::Kind;

use crate::options::Settings;

/// The bodies of requests.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) primary_key: String,
    pub(crate) field_names: Vec<String>,
    /// The beginning of every body.
    start: String,
    /// The beginning of a key: the member of the partition key, and the name of the primary key.
    key: String,
    /// The conditions of a page of a partition: from the first key on, and after a key.
    conditions: Option<[String; 2]>,
    /// The ends of bodies that select columns, by [`selection`]: of GetItem and Scan, and of Query.
    selections: Vec<[String; 2]>,
}

/// The place of a selection of columns.
const fn selection(columns: Columns) -> usize {
    match columns {
        Columns::All => 0,
        Columns::AllByName => 1,
        Columns::One(field) => field as usize + 2,
    }
}

fn put(body: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    body.write_fmt(text).expect("a write into a vector succeeds");
}

/// A string of JSON.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("any text is a string of JSON")
}

/// Appends a string of JSON.
fn put_quoted(body: &mut Vec<u8>, text: &[u8]) {
    let text = str::from_utf8(text).expect("an operation begins with a check of its texts");
    serde_json::to_writer(body, text).expect("a write into a vector succeeds");
}

impl Records {
    pub(crate) fn new(layout: &Layout, settings: &Settings) -> Self {
        let Settings { primary_key, partition, is_consistent, counts_capacity, .. } = settings;
        let capacity = if *counts_capacity { r#""ReturnConsumedCapacity":"TOTAL","# } else { "" };
        let consistency = if *is_consistent { r#","ConsistentRead":true"# } else { "" };
        let (name, mut key) = (quoted(primary_key), String::new());
        let (mut key_names, mut conditions) = (Vec::new(), None);
        if let Some((partition, value)) = partition {
            let (partition, value) = (quoted(partition), quoted(value));
            key = format!(r#"{partition}:{{"S":{value}}},"#);
            key_names = vec![format!(r##""#p":{partition}"##), format!(r##""#k":{name}"##)];
            let values =
                format!(r#","ExpressionAttributeValues":{{":p":{{"S":{value}}},":k":{{"S":"#);
            conditions = Some([">=", ">"].map(|comparison| {
                let text = format!("#p=:p AND #k{comparison}:k");
                format!(r#""KeyConditionExpression":"{text}"{values}"#)
            }));
        }
        let select = |fields: &[usize]| {
            [Vec::new(), key_names.clone()].map(|mut names| {
                let own = |field: &usize| quoted(&layout.field_names[*field]);
                names.extend(fields.iter().map(|n| format!(r##""#{n}":{}"##, own(n))));
                let numbers: Vec<_> = fields.iter().map(|n| format!("#{n}")).collect();
                let mut end = consistency.to_owned();
                if !numbers.is_empty() {
                    end += &format!(r#","ProjectionExpression":"{}""#, numbers.join(","));
                }
                if !names.is_empty() {
                    end += &format!(r#","ExpressionAttributeNames":{{{}}}"#, names.join(","));
                }
                end + "}"
            })
        };
        let all: Vec<_> = (0..layout.field_names.len()).collect();
        let one = all.iter().map(|field| select(&[*field]));
        Self {
            primary_key: primary_key.clone(),
            field_names: layout.field_names.clone(),
            start: format!(r#"{{"TableName":{},{capacity}"#, quoted(&layout.table)),
            key: format!(r#"{{{key}{name}:{{"S":"#),
            conditions,
            selections: [select(&[]), select(&all)].into_iter().chain(one).collect(),
        }
    }

    /// Whether scans read pages of a partition.
    pub(crate) const fn has_partition(&self) -> bool {
        self.conditions.is_some()
    }

    /// Begins a body with a member whose value is a key, without its end.
    fn begin(&self, body: &mut Vec<u8>, member: &str, key: &[u8]) {
        body.clear();
        put(body, format_args!(r#"{}"{member}":{}"#, self.start, self.key));
        put_quoted(body, key);
        body.push(b'}');
    }

    /// Writes the body of an operation on one record. Returns its action.
    pub(crate) fn put(
        &self,
        body: &mut Vec<u8>,
        kind: Kind,
        key: &[u8],
        values: Values<'_>,
        columns: Columns,
    ) -> &'static str {
        self.begin(body, if kind == Kind::Insert { "Item" } else { "Key" }, key);
        let action = match kind {
            Kind::Insert => {
                for (field, value) in values.iter() {
                    body.push(b',');
                    put_quoted(body, self.field_names[field as usize].as_bytes());
                    body.extend_from_slice(br#":{"S":"#);
                    put_quoted(body, value);
                    body.push(b'}');
                }
                "PutItem"
            }
            Kind::Update | Kind::ReadModifyWrite => {
                self.put_changes(body, values);
                "UpdateItem"
            }
            Kind::Delete => "DeleteItem",
            Kind::Read | Kind::Scan => {
                put(body, format_args!("}}{}", self.selections[selection(columns)][0]));
                return "GetItem";
            }
        };
        body.extend_from_slice(b"}}");
        action
    }

    /// Writes the assignments of an update, without their end.
    fn put_changes(&self, body: &mut Vec<u8>, values: Values<'_>) {
        let comma = |place| if place > 0 { "," } else { "" };
        body.extend_from_slice(br#"},"UpdateExpression":"SET "#);
        for (place, (field, _)) in values.iter().enumerate() {
            put(body, format_args!("{}#{field}=:{field}", comma(place)));
        }
        // Without the condition, the update of a missing record would create a part of one.
        body.extend_from_slice(br##"","ConditionExpression":"attribute_exists(#k)","##);
        body.extend_from_slice(br##""ExpressionAttributeNames":{"#k":"##);
        put_quoted(body, self.primary_key.as_bytes());
        for (field, _) in values.iter() {
            put(body, format_args!(r##","#{field}":"##));
            put_quoted(body, self.field_names[field as usize].as_bytes());
        }
        body.extend_from_slice(br#"},"ExpressionAttributeValues":{"#);
        for (place, (field, value)) in values.iter().enumerate() {
            put(body, format_args!(r#"{}":{field}":{{"S":"#, comma(place)));
            put_quoted(body, value);
            body.push(b'}');
        }
    }

    /// Writes the body of a page of up to `limit` records: from a first key on in a partition, or
    /// after a key. Returns its action.
    pub(crate) fn put_page(
        &self,
        body: &mut Vec<u8>,
        key: &[u8],
        is_first: bool,
        limit: u64,
        columns: Columns,
    ) -> &'static str {
        let [scan, query] = &self.selections[selection(columns)];
        let Some([from, after]) = &self.conditions else {
            self.begin(body, "ExclusiveStartKey", key);
            put(body, format_args!(r#"}},"Limit":{limit}{scan}"#));
            return "Scan";
        };
        body.clear();
        put(body, format_args!("{}{}", self.start, if is_first { from } else { after }));
        put_quoted(body, key);
        put(body, format_args!(r#"}}}},"Limit":{limit}{query}"#));
        "Query"
    }
}
