from __future__ import annotations

from netlab.objects.field import FieldError
from netlab.objects.meta import ObjectMeta
from netlab.objects.metadata_validation import validate_annotations, validate_labels, validate_metadata
from netlab.objects.names import dns1123_label_faults


def faults(metadata: ObjectMeta, *, namespaced: bool = True) -> list[tuple[str, str]]:
    errors = validate_metadata(metadata, dns1123_label_faults, namespaced=namespaced)
    return [(error.path, error.kind) for error in errors]


def test_metadata_is_fine() -> None:
    labels = {"app": "web", "example.com/tier": ""}
    metadata = ObjectMeta(name="web", namespace="lab", labels=labels, finalizers=["example.com/hold"])
    assert faults(metadata) == []


def test_a_name_is_required() -> None:
    (error,) = validate_metadata(ObjectMeta(namespace="lab"), dns1123_label_faults, namespaced=True)
    assert str(error) == "metadata.name: Required value: name or generateName is required"


def test_the_name_that_was_generated_is_validated_with_its_prefix() -> None:
    metadata = ObjectMeta(generate_name="Web-", name="Web-x2v4z", namespace="lab")
    assert faults(metadata) == [("metadata.generateName", "Invalid"), ("metadata.name", "Invalid")]
    assert faults(ObjectMeta(generate_name="web-", name="web-x2v4z", namespace="lab")) == []


def test_namespaces() -> None:
    assert faults(ObjectMeta(name="web")) == [("metadata.namespace", "Required")]
    assert faults(ObjectMeta(name="web", namespace="Lab")) == [("metadata.namespace", "Invalid")]
    assert faults(ObjectMeta(name="n", namespace="lab"), namespaced=False) == [("metadata.namespace", "Forbidden")]


def test_keys_and_values_of_labels_are_named_at_the_field() -> None:
    errors = validate_labels("metadata.labels", {"a b": "c", "ok": "d e"})
    assert [(error.path, error.value) for error in errors] == [("metadata.labels", "a b"), ("metadata.labels", "d e")]


def test_annotations_may_have_capital_letters_in_prefixes_and_any_value() -> None:
    assert validate_annotations("metadata.annotations", {"Example.COM/Note": "any text: {}\n"}) == []
    (error,) = validate_annotations("metadata.annotations", {"bad key": "x"})
    assert error.value == "bad key"


def test_annotations_have_a_limit_together() -> None:
    half = 128 * 1024
    assert validate_annotations("a", {"a": "x" * (half - 1), "b": "x" * (half - 1)}) == []
    (error,) = validate_annotations("a", {"a": "x" * half, "b": "x" * half})
    assert (error.kind, error.detail) == ("TooLong", "may not be more than 262144 bytes")


def test_owner_references() -> None:
    good = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
    bad = {"apiVersion": "apps/", "uid": "2"}
    event = {"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "3"}
    metadata = ObjectMeta(name="web", namespace="lab", owner_references=[good, bad, event, good])
    assert faults(metadata) == [
        ("metadata.ownerReferences.apiVersion", "Invalid"),
        ("metadata.ownerReferences.kind", "Invalid"),
        ("metadata.ownerReferences.name", "Invalid"),
        ("metadata.ownerReferences", "Invalid"),
        ("metadata.ownerReferences", "Invalid"),
    ]


def test_two_finalizers_contradict_each_other() -> None:
    metadata = ObjectMeta(name="web", namespace="lab", finalizers=["orphan", "foregroundDeletion"])
    errors = validate_metadata(metadata, dns1123_label_faults, namespaced=True)
    expected = "finalizer orphan and foregroundDeletion cannot be both set"
    assert errors == [FieldError("Invalid", "metadata.finalizers", ["orphan", "foregroundDeletion"], expected)]


def test_generation_is_not_negative() -> None:
    assert faults(ObjectMeta(name="web", namespace="lab", generation=-1)) == [("metadata.generation", "Invalid")]
