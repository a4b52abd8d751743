"""Envelopes, statements and events, read by the programs that others read them with."""

from __future__ import annotations

import json
import re

import pytest

from dshap.jobs.lineage import events_of
from dshap.seals.attestations import sealed_runs
from tests.jobs.sealed_jobs import new_key, of_people
from tests.jobs.test_lineage import told  # noqa: F401 (a fixture)


@pytest.fixture(scope="module")
def sealed(tmp_path_factory):
    """The folder of a run that was signed, and the public key."""
    folder = tmp_path_factory.mktemp("sealed")
    private, public = new_key(folder)
    job = of_people(folder / "job", seal={"key": str(private)})
    job.run()
    (run_id,) = sealed_runs(job.store)
    return job.store / "runs" / run_id, public


def test_securesystemslib_verifies_the_envelope(sealed, tmp_path):
    pytest.importorskip("securesystemslib", reason="securesystemslib is not installed")
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.dsse import Envelope
    from securesystemslib.exceptions import VerificationError
    from securesystemslib.signer import SSlibKey

    run, public = sealed
    content = json.loads((run / "attestation.json").read_text())
    key = SSlibKey.from_crypto(load_pem_public_key(public.read_bytes()))
    assert content["signatures"][0]["keyid"] == key.keyid
    envelope = Envelope.from_dict(content)
    assert envelope.verify([key], 1) == {key.keyid: key}
    envelope.payload += b" "
    with pytest.raises(VerificationError):
        envelope.verify([key], 1)
    _, other = new_key(tmp_path)
    stranger = SSlibKey.from_crypto(load_pem_public_key(other.read_bytes()))
    with pytest.raises(VerificationError):
        Envelope.from_dict(json.loads((run / "attestation.json").read_text())).verify([stranger], 1)


def test_in_toto_attestation_parses_the_statement(sealed):
    pytest.importorskip("in_toto_attestation", reason="in-toto-attestation is not installed")
    import google.protobuf.json_format as forms
    from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
    from in_toto_attestation.v1 import statement_pb2
    from in_toto_attestation.v1.statement import Statement

    from dshap.seals.envelope import envelope_in

    statement = envelope_in((sealed[0] / "attestation.json").read_bytes()).statement
    parsed = forms.ParseDict(statement, statement_pb2.Statement())
    Statement.copy_from_pb(parsed).validate()
    assert len(parsed.subject) == len(statement["subject"])
    predicate = {
        name: value
        for name, value in statement["predicate"].items()
        if not name.startswith("dshap_")
    }
    provenance = forms.ParseDict(predicate, provenance_pb2.Provenance())
    assert provenance.build_definition.build_type == "urn:dshap:run:v1"
    names = {each.name for each in provenance.build_definition.resolved_dependencies}
    assert {"source", "model", "job file", "packages", "dshap"} <= names
    assert provenance.run_details.metadata.invocation_id == sealed[0].name


def test_sigstore_takes_the_statement(sealed):
    dsse = pytest.importorskip("sigstore.dsse", reason="sigstore is not installed")
    from dshap.seals.envelope import envelope_in

    payload = envelope_in((sealed[0] / "attestation.json").read_bytes()).payload
    assert dsse.Statement(payload)


def comparable(value):
    """An event without the name of its producer and what is empty, and its schemas by their first numbers.

    Later numbers of a version add optional keys.
    """
    match value:
        case dict():
            inside = {
                name: comparable(each) for name, each in value.items() if "producer" not in name
            }
            return {name: each for name, each in inside.items() if each not in (None, {}, [])}
        case list():
            return [comparable(each) for each in value]
        case str():
            return re.sub(r"/(\d+)-\d+-\d+/", r"/\1/", value)
    return value


def test_openlineage_reads_the_events(told):  # noqa: F811
    """Each event and facet is made anew by the class that OpenLineage generates from its schema."""
    pytest.importorskip("openlineage.client", reason="openlineage-python is not installed")
    from openlineage.client import event_v2, facet_v2
    from openlineage.client.serde import Serde

    kinds = {
        "processing_engine": facet_v2.processing_engine_run.ProcessingEngineRunFacet,
        "nominalTime": facet_v2.nominal_time_run.NominalTimeRunFacet,
        "errorMessage": facet_v2.error_message_run.ErrorMessageRunFacet,
        "jobType": facet_v2.job_type_job.JobTypeJobFacet,
        "schema": facet_v2.schema_dataset.SchemaDatasetFacet,
        "dataQualityMetrics": facet_v2.data_quality_metrics_input_dataset.DataQualityMetricsInputDatasetFacet,
        "outputStatistics": facet_v2.output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet,
    }

    def facets(given):
        found = {}
        for name, facet in given.items():
            content = {key: value for key, value in facet.items() if not key.startswith("_")}
            made = kinds[name](**content)
            found[name] = made
        return found

    for event in events_of(told):
        inputs = [
            event_v2.InputDataset(
                each["namespace"], each["name"],
                facets=facets(each["facets"]), inputFacets=facets(each.get("inputFacets", {})),
            )
            for each in event["inputs"]
        ]  # fmt: skip
        outputs = [
            event_v2.OutputDataset(
                each["namespace"], each["name"],
                facets=facets(each["facets"]), outputFacets=facets(each["outputFacets"]),
            )
            for each in event["outputs"]
        ]  # fmt: skip
        run, job = event["run"], event["job"]
        made = event_v2.RunEvent(
            eventType=event_v2.RunState(event["eventType"]),
            eventTime=event["eventTime"],
            run=event_v2.Run(run["runId"], facets=facets(run["facets"])),
            job=event_v2.Job(job["namespace"], job["name"], facets=facets(job["facets"])),
            inputs=inputs,
            outputs=outputs,
        )
        assert comparable(json.loads(Serde.to_json(made))) == comparable(event)
