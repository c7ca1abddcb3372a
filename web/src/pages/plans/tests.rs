//! Plans side by side: what all have, and what differs.

use super::*;

fn plan(at: &str, price: u64) -> v1::Plan {
    let value =
        |objective: v1::Objective, value| v1::ObjectiveValue { objective: objective.into(), value };
    v1::Plan {
        digest: at.repeat(64),
        placements: vec![v1::Placement {
            site: "a".to_owned(),
            at: at.to_owned(),
            cpus: 4,
            ..Default::default()
        }],
        values: vec![value(v1::Objective::Preference, 4_000), value(v1::Objective::Price, price)],
        ..Default::default()
    }
}

#[test]
fn what_is_alike_is_told_once_and_what_differs_by_row() {
    let text = compared(&[plan("N", 0), plan("M", 2_500)], &[]).into_string();
    assert_eq!(text.matches("4 CPUs").count(), 1, "{text}");
    assert!(text.contains("a N</td>") && text.contains("a M</td>"), "{text}");
    assert!(text.contains(">Price</th>") && text.contains(">2.5</td>"), "{text}");
    assert!(!text.contains(">Paths</th>") && !text.contains(">Optimal</th>"), "{text}");
    assert_eq!(text.matches("Reserve this").count(), 2);
    let alone = compared(&[plan("N", 0)], &[]).into_string();
    assert!(alone.contains("4 CPUs at N") && !alone.contains(">Sites</th>"), "{alone}");
    assert!(!alone.contains("Price"), "{alone}");
}

#[test]
fn a_request_without_a_plan_is_told_why() {
    let evil = "<script>\"'&";
    let refusal = v1::Refusal { detail: evil.to_owned(), ..Default::default() };
    let frame = v1::RefusedFrame { window: None, refusal: Some(refusal) };
    let response = v1::PlanResponse {
        refused: vec![frame; FRAMES_SHOWN + 3],
        unreachable: vec![evil.to_owned()],
        ..Default::default()
    };
    let text = without_plan(&response, false).into_string();
    assert!(
        text.contains("There is no plan: &lt;script&gt;") && !text.contains("<script"),
        "{text}"
    );
    assert!(
        text.contains("15 starts without a plan") && text.contains("<li>3 more</li>"),
        "{text}"
    );
    let never = v1::Alternatives::default();
    let text = alternatives(&RequestFields::default(), &never).into_string();
    assert!(text.contains("at no time"), "{text}");
}
