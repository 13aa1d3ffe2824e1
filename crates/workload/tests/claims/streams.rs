//! Streams as pure functions of seeds, number and frontier.

use std::thread;

use kvmark_plan::{
    Distribution, FieldChoice, Kind, PhaseName, Plan, Seeds, Share, SizeLaw, TAG_LENGTH, tag_length,
};
use kvmark_workload::{Draw, InsertSequence, RecordRef, Stream, ValueBuffer, tag};

use crate::plans::{choosing, group, inserts_after, mix, phase, plan, stream};
use crate::statistics::{assert_follows, count};

/// Every kind, one field, sizes that vary.
fn varied(distribution: Distribution) -> Plan {
    let mut plan = choosing(1_000, distribution);
    plan.groups[0].mix = mix(&Kind::ALL.map(|kind| (kind, 1.0)));
    plan.groups[0].read_fields = FieldChoice::One;
    plan.dataset.fields.length = SizeLaw::Uniform { min: 1, max: 50 };
    plan
}

fn operation(stream: &Stream, draw: Draw) -> (Draw, Vec<u8>, Vec<u8>) {
    let mut key = Vec::new();
    stream.records().key_into(draw.ordinal, &mut key);
    let mut values = ValueBuffer::default();
    if draw.kind == Kind::Insert {
        let record = RecordRef { ordinal: draw.ordinal, key: &key };
        stream.insert_values_into(draw.version, record, &mut values);
    } else {
        stream.update_values_into(&draw, &key, &mut values);
    }
    (draw, key, values.bytes)
}

const USER: RecordRef<'_> = RecordRef { ordinal: 1, key: b"user1" };

#[test]
fn the_operations_are_the_same_on_one_and_on_eight_workers() {
    let plan = varied(Distribution::YcsbZipfian);
    let inserts = inserts_after(&plan);
    let on = |workers: u64| {
        let stream = stream(&plan);
        let mut all: Vec<_> = thread::scope(|scope| {
            let work = |worker| {
                let numbers = (worker..8_000).step_by(workers as usize);
                let draw = |number| operation(&stream, stream.draw(number, &inserts));
                numbers.map(draw).collect::<Vec<_>>()
            };
            let spawn = |worker| scope.spawn(move || work(worker));
            let threads: Vec<_> = (0..workers).map(spawn).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        all
    };
    assert_eq!(on(1), on(8));
}

#[test]
fn recorded_frontiers_reproduce_draws_among_concurrent_inserts() {
    for distribution in [Distribution::Latest, Distribution::YcsbZipfian, Distribution::Uniform] {
        let mut plan = varied(distribution);
        plan.groups[0].keys.count = 9_000;
        let (stream, inserts) = (stream(&plan), inserts_after(&plan));
        let seen: Vec<(u64, Draw)> = thread::scope(|scope| {
            let work = |worker| draw_and_insert(&stream, &inserts, worker);
            let spawn = |worker| scope.spawn(move || work(worker));
            let threads: Vec<_> = (0..8).map(spawn).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert!(seen.iter().any(|(frontier, _)| *frontier > 1_000), "no insert was seen");
        for (frontier, draw) in seen {
            assert_eq!(stream.draw_at(draw.version, frontier, &inserts), draw);
            assert!(draw.kind == Kind::Insert || draw.ordinal < frontier);
        }
    }
}

/// One worker's part of 32,000 numbers, with the frontier that each draw saw. Some inserts fail.
fn draw_and_insert(stream: &Stream, inserts: &InsertSequence, worker: u64) -> Vec<(u64, Draw)> {
    let mut seen = Vec::new();
    for number in (worker..32_000).step_by(8) {
        let frontier = inserts.frontier();
        let draw = stream.draw_at(number, frontier, inserts);
        seen.push((frontier, draw));
        if draw.kind == Kind::Insert {
            let ordinal = inserts.take().unwrap();
            if number % 7 == 0 { inserts.fail(ordinal) } else { inserts.acknowledge(ordinal) }
        }
        thread::yield_now();
    }
    seen
}

#[test]
fn a_draw_at_the_live_frontier_is_the_draw() {
    let plan = varied(Distribution::Latest);
    let (stream, inserts) = (stream(&plan), inserts_after(&plan));
    for number in 0..1_000 {
        let draw = stream.draw(number, &inserts);
        assert_eq!(stream.draw_at(number, inserts.frontier(), &inserts), draw);
        inserts.acknowledge(inserts.take().unwrap());
    }
}

#[test]
fn kinds_come_in_the_proportions_of_the_mix() {
    let mut plan = plan();
    plan.groups[0].mix =
        mix(&[(Kind::Read, 90.0), (Kind::Insert, 0.0), (Kind::Update, 6.0), (Kind::Scan, 4.0)]);
    let (stream, inserts) = (stream(&plan), inserts_after(&plan));
    let drawn = (0..100_000).map(|number| stream.draw(number, &inserts).kind as usize);
    let masses = [0.9, 0.06, 0.0, 0.04, 0.0, 0.0];
    let counts = count(6, drawn);
    assert_eq!(counts[Kind::Insert as usize], 0);
    assert_follows(&counts, masses.into_iter(), "kinds");
}

/// The stream's kinds, ordinals and values, each as text to compare.
fn faces(plan: &Plan, phase: usize, group: usize) -> [String; 3] {
    let stream = Stream::new(plan, phase, group).unwrap();
    let inserts = inserts_after(plan);
    let draws: Vec<Draw> = (0..100).map(|number| stream.draw(number, &inserts)).collect();
    let keyed = |draw: &&Draw| draw.kind != Kind::Insert;
    let ordinals: Vec<u64> = draws.iter().filter(keyed).map(|draw| draw.ordinal).collect();
    let kinds: Vec<Kind> = draws.iter().map(|draw| draw.kind).collect();
    let mut values = ValueBuffer::default();
    stream.insert_values_into(0, USER, &mut values);
    [format!("{kinds:?}"), format!("{ordinals:?}"), format!("{:?}", values.bytes)]
}

#[test]
fn groups_and_phases_draw_independently_and_the_same_each_time() {
    let mut plan = varied(Distribution::Uniform);
    plan.groups.push(plan.groups[0].clone());
    plan.phases.push(phase());
    let first = faces(&plan, 0, 0);
    assert_eq!(faces(&plan, 0, 0), first);
    for (phase, group) in [(0, 1), (1, 0), (1, 1)] {
        let other = faces(&plan, phase, group);
        assert!((0..3).all(|face| other[face] != first[face]), "phase {phase}, group {group}");
    }
}

#[test]
fn each_seed_changes_its_own_source_of_chance_and_no_other() {
    let mut plan = varied(Distribution::Uniform);
    // Without inserts, so that the ordinals can be compared number by number.
    plan.groups[0].mix = mix(&[(Kind::Read, 1.0), (Kind::Update, 1.0)]);
    let before = faces(&plan, 0, 0);
    let Seeds { schedule, keys, values, mix } = plan.seeds;
    let changed = [
        (Seeds { mix: mix + 1, ..plan.seeds }, [true, false, false]),
        (Seeds { keys: keys + 1, ..plan.seeds }, [false, true, false]),
        (Seeds { values: values + 1, ..plan.seeds }, [false, false, true]),
        (Seeds { schedule: schedule + 1, ..plan.seeds }, [false, false, false]),
    ];
    for (seeds, expected) in changed {
        plan.seeds = seeds;
        let after = faces(&plan, 0, 0);
        let differs = [0, 1, 2].map(|face| after[face] != before[face]);
        assert_eq!(differs, expected, "{seeds:?}");
    }
}

#[test]
fn every_group_and_phase_has_the_same_popular_keys() {
    let law = Distribution::Zipfian { theta: 1.5, scrambled: true };
    let mut plan = choosing(100_000, law);
    plan.groups.push(group());
    plan.groups[1].keys = plan.groups[0].keys.clone();
    plan.phases.push(phase());
    let most_popular = |phase, group| {
        let stream = Stream::new(&plan, phase, group).unwrap();
        let inserts = inserts_after(&plan);
        let drawn = (0..2_000).map(|number| stream.draw(number, &inserts).ordinal as usize);
        let counts = count(100_000, drawn);
        (0..100_000).max_by_key(|ordinal| counts[*ordinal])
    };
    let first = most_popular(0, 0);
    assert_eq!([most_popular(0, 1), most_popular(1, 0), most_popular(1, 1)], [first; 3]);
}

#[test]
fn shares_of_a_run_draw_the_numbers_of_the_whole_run() {
    let mut plan = varied(Distribution::YcsbZipfian);
    let (whole, inserts) = (stream(&plan), inserts_after(&plan));
    plan.share = Share { index: 1, of: 2 };
    let (part, inserts_of_part) = (stream(&plan), inserts_after(&plan));
    for number in (1..1_000).step_by(2) {
        assert_eq!(part.draw(number, &inserts_of_part), whole.draw(number, &inserts));
    }
}

#[test]
fn noise_is_printable_and_differs_by_number_and_field() {
    let stream = stream(&plan());
    let mut values = ValueBuffer::default();
    let mut seen = std::collections::BTreeSet::new();
    let mut characters = vec![0_u64; 95];
    for number in 0..200 {
        stream.insert_values_into(number, USER, &mut values);
        assert_eq!(values.bytes.len(), 1_000);
        for (field, place) in &values.places {
            assert_eq!(*place, *field as usize * 100..(*field as usize + 1) * 100);
            assert!(seen.insert(values.bytes[place.clone()].to_vec()));
            let noise = &values.bytes[place.start + TAG_LENGTH..place.end];
            noise.iter().for_each(|byte| characters[usize::from(byte - b' ')] += 1);
        }
    }
    let share = |character: u32| (0..256).filter(|octet| octet * 95 / 256 == character).count();
    let masses = (0..95).map(|character| share(character) as f64 / 256.0);
    assert_follows(&characters, masses, "characters");
}

#[test]
fn noise_begins_with_the_tag_of_its_record_of_which_a_short_one_has_a_part() {
    let mut plan = plan();
    let mut values = ValueBuffer::default();
    for size in [0, 1, 7, 8, 9, 100] {
        plan.dataset.fields.length = SizeLaw::Constant { size };
        let stream = stream(&plan);
        for ordinal in 0..100 {
            stream.insert_values_into(5, RecordRef { ordinal, key: b"" }, &mut values);
            for (_, place) in &values.places {
                let tagged = tag_length(place.len());
                let begin = &values.bytes[place.clone()][..tagged];
                assert_eq!(begin, &tag(ordinal)[..tagged]);
            }
            assert_eq!(stream.records().tag(ordinal), Some(tag(ordinal)));
        }
    }
    let tags: std::collections::BTreeSet<_> = (0..100_000).map(tag).collect();
    assert_eq!(tags.len(), 100_000);
    assert!(tags.iter().flatten().all(u8::is_ascii_graphic));
}

#[test]
fn values_are_those_of_the_number_whatever_fields_are_written() {
    let mut plan = varied(Distribution::Uniform);
    let all = stream(&plan);
    plan.groups[0].write_fields = FieldChoice::One;
    let one = stream(&plan);
    let inserts = inserts_after(&plan);
    let (mut whole, mut single) = (ValueBuffer::default(), ValueBuffer::default());
    for number in 0..100 {
        let draw = one.draw(number, &inserts);
        all.update_values_into(&draw, b"user1", &mut whole);
        one.update_values_into(&draw, b"user1", &mut single);
        let (_, place) = &whole.places[draw.field as usize];
        assert_eq!(single.bytes, whole.bytes[place.clone()]);
    }
}

#[test]
fn the_frontier_is_needed_where_inserts_can_be_read() {
    let needs = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan();
        change(&mut plan);
        stream(&plan).needs_frontier()
    };
    assert!(!needs(&|_| ()));
    assert!(needs(&|plan| plan.groups[0].keys.distribution = Distribution::Latest));
    assert!(needs(&|plan| plan.groups[0].keys.count = 1_001));
    assert!(needs(&|plan| plan.phases[0].name = PhaseName::Load));
    let only_inserts = mix(&[(Kind::Insert, 1.0)]);
    assert!(!needs(&|plan| {
        plan.phases[0].name = PhaseName::Load;
        plan.groups[0].mix.clone_from(&only_inserts);
    }));
}
