//! The requests of operations and of opening.

use kvmark_driver::{Columns, Driver, Request, Values};
use kvmark_plan::{Kind, Outcome};
use kvmark_testing::{cells, execute, request, run, session};
use serde_json::{Value, json};

use crate::scripted::{Server, open, refusal, response, table};

const VALUES: Values<'static> = Values { bytes: b"a\"bc", places: &[(0, 0..2), (2, 2..4)] };

/// A text without its line ends and the blanks that follow them.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim_start).collect()
}

/// The outcome, the values and the requests of an operation that gets these responses.
fn executed(
    options: Value,
    request: &Request<'_>,
    responses: &'static [&'static str],
) -> (Outcome, Vec<String>, Vec<String>) {
    let keys: &[_] = match options.get("partition_key") {
        Some(_) => &[("HASH", "p"), ("RANGE", "_key")],
        None => &[("HASH", "_key")],
    };
    let server = Server::new(move |number, peer| {
        while number == 0 && peer.hear().is_some() {
            peer.say(&table(keys));
        }
        for body in responses {
            peer.hear();
            peer.say(&response(200, body));
        }
    });
    let driver = open(&server.address, options).unwrap();
    server.take_heard();
    let session = session(&driver, 1);
    let (outcome, reply) = run(execute(&session, 0, request));
    (outcome, cells(&reply), server.take_heard())
}

#[test]
fn each_kind_of_operation_has_the_request_of_ycsb() {
    let one = Request { columns: Columns::One(1), ..request(Kind::Read, "k\"") };
    let all = Request { columns: Columns::AllByName, ..one };
    let write = |kind| Request { values: VALUES, ..request(kind, "k\"") };
    let key = r#"{"_key":{"S":"k\""}"#;
    let names = r##""ProjectionExpression":"#0,#1,#2",
        "ExpressionAttributeNames":{"#0":"field0","#1":"field1","#2":"field2"}"##;
    let cases = [
        (json!({}), request(Kind::Read, "k\""), format!(r#"GetItem {{T,"Key":{key}}}}}"#)),
        (
            json!({ "consistent": true }),
            one,
            format!(
                r##"GetItem {{T,"Key":{key}}},"ConsistentRead":true,
                "ProjectionExpression":"#1","ExpressionAttributeNames":{{"#1":"field1"}}}}"##
            ),
        ),
        (json!({}), all, format!(r#"GetItem {{T,"Key":{key}}},{names}}}"#)),
        (
            json!({}),
            write(Kind::Insert),
            format!(r#"PutItem {{T,"Item":{key},"field0":{{"S":"a\""}},"field2":{{"S":"bc"}}}}}}"#),
        ),
        (
            json!({ "capacity": true }),
            write(Kind::Update),
            format!(
                r##"UpdateItem {{T,"ReturnConsumedCapacity":"TOTAL","Key":{key}}},
                "UpdateExpression":"SET #0=:0,#2=:2",
                "ConditionExpression":"attribute_exists(#k)",
                "ExpressionAttributeNames":{{"#k":"_key","#0":"field0","#2":"field2"}},
                "ExpressionAttributeValues":{{":0":{{"S":"a\""}},":2":{{"S":"bc"}}}}}}"##
            ),
        ),
        (
            json!({ "partition_key": "p", "partition": "1" }),
            request(Kind::Delete, "k"),
            r#"DeleteItem {T,"Key":{"p":{"S":"1"},"_key":{"S":"k"}}}"#.to_owned(),
        ),
    ];
    for (options, request, expected) in cases {
        let expected = one_line(&expected).replace("T,", r#""TableName":"usertable","#);
        let (outcome, _, heard) = executed(options, &request, &["{}"]);
        let missing = if request.kind == Kind::Read { Outcome::Miss } else { Outcome::Ok };
        assert_eq!((outcome, heard), (missing, vec![expected]));
    }
}

#[test]
fn a_read_returns_the_requested_fields() {
    let item = r#"{"ConsumedCapacity":{"TableName":"t","CapacityUnits":1},
        "Item":{"field2":{"S":"c\n"},"_key":{"S":"k"},"field0":{"S":"a\u00e9"},"x":{"N":"7"}}}"#;
    let read = request(Kind::Read, "k");
    let cases = [
        (read, vec!["0.0=a\u{e9}", "0.2=c\n"]),
        (Request { columns: Columns::One(2), ..read }, vec!["0.2=c\n"]),
        (Request { wants_values: false, ..read }, vec![]),
    ];
    for (request, expected) in cases {
        let responses = Box::leak(Box::new([item]));
        let (outcome, values, _) = executed(json!({}), &request, responses);
        assert_eq!(
            (outcome, values),
            (Outcome::Ok, expected.into_iter().map(str::to_owned).collect())
        );
    }
}

#[test]
fn a_scan_reads_the_start_record_and_then_pages_until_it_has_enough() {
    const PAGES: [&str; 3] = [
        r#"{"Item":{"field0":{"S":"1"}}}"#,
        r#"{"Items":[{"field0":{"S":"2"},"field1":{"S":"z"}},{}],
            "Count":2,"LastEvaluatedKey":{"_key":{"S":"q\""}}}"#,
        r#"{"Items":[{"field0":{"S":"4"}}],"LastEvaluatedKey":{"_key":{"S":"r"}}}"#,
    ];
    let scan = |scan_length| Request { scan_length, ..request(Kind::Scan, "k") };
    let (outcome, values, heard) = executed(json!({}), &scan(4), &PAGES);
    assert_eq!((outcome, values.join(" ")), (Outcome::Ok, "0.0=1 1.0=2 1.1=z 3.0=4".to_owned()));
    let body = r#"{"TableName":"usertable","#;
    let page = |key: &str, limit: u64| {
        format!(r#"Scan {body}"ExclusiveStartKey":{{"_key":{{"S":"{key}"}}}},"Limit":{limit}}}"#)
    };
    let start = format!(r#"GetItem {body}"Key":{{"_key":{{"S":"k"}}}}}}"#);
    assert_eq!(heard, [start.clone(), page("k", 3), page("q\\\"", 1)]);
    // Without a start record it reads as many; at the end of the table it stops.
    let (outcome, values, heard) = executed(json!({}), &scan(2), &["{}", r#"{"Items":[]}"#]);
    assert_eq!((outcome, values, heard), (Outcome::Ok, vec![], vec![start, page("k", 2)]));
}

#[test]
fn a_scan_of_a_partition_is_a_query_in_the_order_of_the_keys() {
    const PAGES: [&str; 2] = [
        r#"{"Items":[{"field1":{"S":"1"}}],
            "LastEvaluatedKey":{"p":{"S":"YCSB_0"},"_key":{"S":"m"}}}"#,
        r#"{"Items":[{"field1":{"S":"2"}}]}"#,
    ];
    let one = Columns::One(1);
    let scan = Request { scan_length: 3, columns: one, ..request(Kind::Scan, "k") };
    let (_, values, heard) = executed(json!({ "partition_key": "p" }), &scan, &PAGES);
    assert_eq!(values, ["0.1=1", "1.1=2"]);
    let page = |comparison: &str, key: &str, limit: u64| {
        format!(
            r##"Query {{"TableName":"usertable",
            "KeyConditionExpression":"#p=:p AND #k{comparison}:k",
            "ExpressionAttributeValues":{{":p":{{"S":"YCSB_0"}},":k":{{"S":"{key}"}}}},
            "Limit":{limit},"ProjectionExpression":"#1",
            "ExpressionAttributeNames":{{"#p":"p","#k":"_key","#1":"field1"}}}}"##
        )
    };
    assert_eq!(heard, [page(">=", "k", 3), page(">", "m", 2)].map(|text| one_line(&text)));
}

#[test]
fn the_consumed_capacity_is_summed() {
    let reply = response(200, r#"{"ConsumedCapacity":{"CapacityUnits":1.5}}"#);
    let server = Server::of_sessions(move |_, peer| peer.repeat(&reply));
    let options = json!({ "capacity": true });
    let driver = open(&server.address, options).unwrap();
    let both = [session(&driver, 1), session(&driver, 1)];
    for session in &both {
        run(execute(session, 0, &request(Kind::Delete, "k")));
    }
    assert_eq!(driver.statistics()["capacity_units"], 3.0);
    assert!(open(&server.address, json!({})).unwrap().statistics().is_empty());
}

#[test]
fn operations_go_to_the_servers_in_turn() {
    let servers = [(); 2].map(|()| Server::of_sessions(|_, peer| peer.echo()));
    let address = format!("{},{}", servers[0].address, servers[1].address);
    // The second server has no connection of the driver itself.
    let driver = open(&address, json!({})).unwrap();
    servers[0].take_heard();
    let session = session(&driver, 1);
    for number in [0, 2, 4] {
        let read = Request { number, ..request(Kind::Read, "k") };
        assert_eq!(run(execute(&session, 0, &read)).0, Outcome::Ok);
    }
    assert_eq!(servers.map(|server| server.take_heard().len()), [3, 0]);
}

#[test]
fn a_missing_table_is_created_and_awaited() {
    let missing = response(
        400,
        r#"{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException","message":"no"}"#,
    );
    let creating = response(200, r#"{"Table":{"TableStatus":"CREATING"}}"#);
    let server = Server::new(move |_, peer| {
        for text in [&missing, &response(200, "{}"), &creating, &table(&[("HASH", "_key")])] {
            peer.hear();
            peer.say(text);
        }
        peer.hear();
    });
    let options = json!({ "partition_key": "p" });
    open(&server.address, options).unwrap();
    let heard = server.heard.lock().unwrap();
    let describe = r#"DescribeTable {"TableName":"usertable"}"#;
    assert_eq!([&heard[0], &heard[2], &heard[3]], [describe; 3]);
    let body = heard[1].strip_prefix("CreateTable ").unwrap();
    let part = |name, role| json!({ "AttributeName": name, "KeyType": role });
    let attribute = |name| json!({ "AttributeName": name, "AttributeType": "S" });
    let expected = json!({
        "TableName": "usertable",
        "KeySchema": [part("p", "HASH"), part("_key", "RANGE")],
        "AttributeDefinitions": [attribute("p"), attribute("_key")],
        "BillingMode": "PAY_PER_REQUEST",
    });
    assert_eq!(serde_json::from_str::<Value>(body).unwrap(), expected);
}

#[test]
fn a_table_with_another_key_is_rejected() {
    let server = Server::of_sessions(|_, peer| peer.echo());
    let key = |name| json!([{ "AttributeName": name, "KeyType": "HASH" }]);
    let expected = format!(
        "the table 'usertable' has the key {}, not {}: give primary_key and, if it has HASH and \
         RANGE, partition_key",
        key("_key"),
        key("id")
    );
    assert_eq!(refusal(&server.address, json!({ "primary_key": "id" })), expected);
}

#[test]
fn invalid_options_are_rejected_in_a_sentence() {
    let error = refusal("127.0.0.1", json!({ "consistent": 1 }));
    assert_eq!(error, "option 'consistent' can't be '1': give true or false");
    let error = refusal("127.0.0.1", json!({ "password_env": "X" }));
    assert!(error.starts_with("the password is given twice"), "{error}");
}
