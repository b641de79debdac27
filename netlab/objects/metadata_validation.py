"""metadata of a new object: the rules that all kinds share.

Source: k8s.io/apimachinery/pkg/api/validation/objectmeta.go, pkg/apis/meta/v1/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from netlab.objects.field import FieldError, forbidden, invalid, required
from netlab.objects.meta import ObjectMeta
from netlab.objects.names import dns1123_label_faults, generated_prefix, label_value_faults, qualified_name_faults

ANNOTATIONS_MAX_BYTES = 256 * 1024
ORPHAN_FINALIZER = "orphan"
FOREGROUND_FINALIZER = "foregroundDeletion"


def validate_metadata(
    metadata: ObjectMeta, name_faults: Callable[[str], list[str]], *, namespaced: bool
) -> list[FieldError]:
    """Everything wrong with the metadata of a new object, whose name has been generated where it had none.

    ``name_faults`` is the rule for names of the kind (see netlab.objects.names).
    """
    errors = []
    if metadata.generate_name:
        prefix = generated_prefix(metadata.generate_name)
        errors += [invalid("metadata.generateName", metadata.generate_name, fault) for fault in name_faults(prefix)]
    if metadata.name:
        errors += [invalid("metadata.name", metadata.name, fault) for fault in name_faults(metadata.name)]
    else:
        errors.append(required("metadata.name", "name or generateName is required"))
    errors += _validate_namespace(metadata.namespace, namespaced)
    if metadata.generation < 0:
        errors.append(invalid("metadata.generation", metadata.generation, "must be greater than or equal to 0"))
    errors += validate_labels("metadata.labels", metadata.labels)
    errors += validate_annotations("metadata.annotations", metadata.annotations)
    errors += _validate_owner_references(metadata.owner_references or [])
    errors += _validate_finalizers(metadata.finalizers or [])
    return errors


def validate_labels(path: str, labels: Mapping[str, str] | None) -> list[FieldError]:
    """Labels, or a selector by labels."""
    errors = []
    for key, value in (labels or {}).items():
        errors += [invalid(path, key, fault) for fault in qualified_name_faults(key)]
        errors += [invalid(path, value, fault) for fault in label_value_faults(value)]
    return errors


def validate_annotations(path: str, annotations: Mapping[str, str] | None) -> list[FieldError]:
    """Annotations; capital letters may stand in their keys' prefixes as well."""
    errors = []
    size = 0
    for key, value in (annotations or {}).items():
        errors += [invalid(path, key, fault) for fault in qualified_name_faults(key.lower())]
        size += len(key.encode()) + len(value.encode())
    if size > ANNOTATIONS_MAX_BYTES:
        errors.append(FieldError("TooLong", path, None, f"may not be more than {ANNOTATIONS_MAX_BYTES} bytes"))
    return errors


def _validate_namespace(namespace: str, namespaced: bool) -> list[FieldError]:
    path = "metadata.namespace"
    if not namespaced:
        return [forbidden(path, "not allowed on this type")] if namespace else []
    if not namespace:
        return [required(path)]
    return [invalid(path, namespace, fault) for fault in dns1123_label_faults(namespace)]


def _validate_owner_references(references: list[dict[str, Any]]) -> list[FieldError]:
    path = "metadata.ownerReferences"
    errors = []
    controller = ""
    for reference in references:
        errors += _validate_owner_reference(path, reference)
        if not reference.get("controller"):
            continue
        this = f"{reference.get('kind', '')}/{reference.get('name', '')}"
        if controller:
            words = "Only one reference can have Controller set to true. "
            words += f'Found "true" in references for {controller} and {this}'
            errors.append(invalid(path, references, words))
        else:
            controller = this
    return errors


def _validate_owner_reference(path: str, reference: dict[str, Any]) -> list[FieldError]:
    errors = []
    api_version = reference.get("apiVersion", "")
    if not api_version.rpartition("/")[2]:
        errors.append(invalid(f"{path}.apiVersion", api_version, "version must not be empty"))
    for name in ("kind", "name", "uid"):
        if not reference.get(name):
            errors.append(invalid(f"{path}.{name}", "", "must not be empty"))
    if (api_version, reference.get("kind")) == ("v1", "Event"):
        errors.append(invalid(path, reference, "/v1, Kind=Event is disallowed from being an owner"))
    return errors


def _validate_finalizers(finalizers: list[str]) -> list[FieldError]:
    path = "metadata.finalizers"
    errors = [invalid(path, name, fault) for name in finalizers for fault in qualified_name_faults(name)]
    if ORPHAN_FINALIZER in finalizers and FOREGROUND_FINALIZER in finalizers:
        words = f"finalizer {ORPHAN_FINALIZER} and {FOREGROUND_FINALIZER} cannot be both set"
        errors.append(invalid(path, finalizers, words))
    return errors
