"""The EndpointSlices that the controller of 1.36.2 was recorded to make, made again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from netlab.model.keys import ObjectKey
from tests.unit.cluster.control_plane import NAMESPACE, ControlPlane, numbers_in

CASES = yaml.safe_load((Path(__file__).parent / "recorded_slices.yaml").read_text())["cases"]

Json = dict[str, Any]


class Replay:
    """One case, step by step."""

    def __init__(self) -> None:
        self.plane = ControlPlane()
        self.names: set[str] = set()
        self.compared = 0

    def step(self, step: Json) -> None:
        before = {each["metadata"]["name"] for each in self.plane.slices()}
        if "create" in step:
            self.plane.put(step["create"])
        elif "pod_status" in step:
            self.pod_status(step)
        elif "call" in step:
            self.call(step)
        elif "do" in step:
            self.do(step["do"])
        else:
            self.see(step["see"], step["value"])
            return
        self.names = before

    def pod_status(self, step: Json) -> None:
        ready = "True" if step["ready"] else "False"
        status = {
            "phase": step["phase"],
            "podIPs": [{"ip": ip} for ip in step["podIPs"]],
            "conditions": [{"type": "Ready", "status": ready}],
        }
        self.plane.update("Pod", step["pod_status"], {"status": status})

    def call(self, step: Json) -> None:
        *_, plural, name = step["path"].split("/")
        kind = {"services": "Service", "pods": "Pod"}[plural]
        if step["call"] == "PATCH":
            self.plane.update(kind, name, step["body"])
        elif step.get("body", {}).get("gracePeriodSeconds"):
            self.plane.update(kind, name, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
        else:
            self.plane.delete(kind, name)

    def do(self, words: str) -> None:
        plane = self.plane
        if "ready Pods" in words or words.startswith("add"):
            for start in numbers_in(words)[::10]:
                with plane.at_once():
                    plane.pods(*range(start, start + 10))
        elif words.startswith("delete p"):
            with plane.at_once():
                for number in numbers_in(words):
                    plane.delete("Pod", f"p{number}")
        else:
            (endpoint_slice,) = plane.slices()
            name = endpoint_slice["metadata"]["name"]
            if words == "DELETE the slice":
                plane.delete("EndpointSlice", name)
            else:
                assert words == "merge patch endpoints to []"
                plane.update("EndpointSlice", name, {"endpoints": []})
            assert plane.addresses() == ["10.244.1.99"]
            self.compared += 1

    def see(self, what: str, value: Any) -> None:
        self.compared += 1
        plane = self.plane
        if what == "same slice name as before":
            assert {each["metadata"]["name"] for each in plane.slices()} == self.names
        elif what == "labels of the slice":
            assert [each["metadata"]["labels"] for each in plane.slices()] == value
        elif what.startswith("endpoints per slice"):
            assert plane.sizes() == sorted(value, reverse=True)
        elif "metadata" in value[0]:
            assert comparable(plane.slices()) == comparable(value)
        elif isinstance(value[0], list):
            assert [endpoints(each) for each in plane.slices()] == [endpoints({"endpoints": each}) for each in value]
        else:
            (expected,) = endpoints({"endpoints": value})
            assert endpoints({"endpoints": [plane.endpoint(expected["addresses"][0])]}) == [expected]


def comparable(slices: list[Json]) -> list[Json]:
    """Without what another part of the API server fills in, and without an order where there is none."""
    result = []
    for each in slices:
        name = each["metadata"]["name"].rpartition("-")[0]
        owners = [{key: one[key] for key in one if key != "uid"} for one in each["metadata"]["ownerReferences"]]
        result.append(
            {
                "name": name,
                "labels": each["metadata"]["labels"],
                "owners": owners,
                "addressType": each["addressType"],
                "endpoints": endpoints(each),
                "ports": sorted(each["ports"] or [], key=lambda port: str(port["name"])),
            }
        )
    return sorted(result, key=lambda each: str(each["endpoints"]))


def endpoints(endpoint_slice: Json) -> list[Json]:
    found = []
    for each in endpoint_slice["endpoints"]:
        target = {key: each["targetRef"][key] for key in ("kind", "name")}
        found.append({**each, "targetRef": target})
    return sorted(found, key=lambda each: str(each["addresses"]))


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_slices_are_as_recorded(case: Json) -> None:
    replay = Replay()
    for step in case["steps"]:
        replay.step(step)
    assert replay.compared


def test_the_service_of_the_recordings_takes_its_slices_along() -> None:
    replay = Replay()
    for step in CASES[0]["steps"]:
        replay.step(step)
    assert replay.plane.store.get(ObjectKey("Service", NAMESPACE, "web")) is None
    assert replay.plane.slices() == []
