"""Tests mirror the package: a room a folder, a module a file, or a line here; they see what is
public."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "dshap"
BESIDE = {"attestations", "benchmarks", "chaos", "documented", "golden", "oracles"}
"""Folders of tests that are of no room: speed and accuracy, commands of pages, stored numbers, and a
second program."""
ELSEWHERE = {
    "cube/comparing_writer.py": "jobs/test_replay.py",
    "jobfile/ending_tables.py": "jobs/test_attesting.py",
    "jobs/listeners.py": "jobs/test_run_endings.py",
    "jobs/notifying.py": "jobs/test_run_endings.py",
    "jobs/replay_outcome.py": "jobs/test_replay.py",
    "run/replaying.py": "jobs/test_replay.py",
    "seals/attest_check.py": "jobs/test_attesting.py",
    "seals/attestations.py": "jobs/test_attesting.py",
    "seals/materials.py": "jobs/test_attesting.py",
    "seals/sealed_loads.py": "jobs/test_attesting.py",
    "seals/statement.py": "jobs/test_attesting.py",
    "seals/stored_job.py": "jobs/test_replay.py",
    "seals/subjects.py": "jobs/test_attesting.py",
    "steps/sealing.py": "jobs/test_attesting.py",
    "analysis/axis_scales.py": "report/pictures/test_dependence.py",
    "analysis/bars.py": "report/pictures/test_bars.py",
    "analysis/column_extents.py": "report/pictures/test_dependence.py",
    "analysis/drift/drift_bars.py": "report/pictures/test_drift.py",
    "analysis/forces.py": "report/pictures/test_force.py",
    "analysis/history_lines.py": "report/pictures/test_over_runs.py",
    "analysis/row_names.py": "report/charts/test_charts.py",
    "analysis/segment_cells.py": "report/pictures/test_heatmaps.py",
    "analysis/shown_features.py": "report/pictures/test_densities.py",
    "analysis/steps_of_rows.py": "report/pictures/test_waterfall.py",
    "analysis/value_texts.py": "report/pictures/test_densities.py",
    "report/looks.py": "report/charts/test_charts.py",
    "report/partial_curves.py": "run/test_partial_dependence.py",
    "report/charts/bar_charts.py": "report/charts/test_charts.py",
    "report/charts/cell_charts.py": "report/charts/test_charts.py",
    "report/charts/chart_grammar.py": "report/charts/test_charts.py",
    "report/charts/compare_charts.py": "report/charts/test_charts.py",
    "report/charts/dependence_charts.py": "report/charts/test_charts.py",
    "report/charts/row_charts.py": "report/charts/test_charts.py",
    "report/charts/run_charts.py": "report/charts/test_charts.py",
    "report/charts/swarm_charts.py": "report/charts/test_charts.py",
    "analysis/segment_names.py": "analysis/test_segment_groups.py",
    "core/late.py": "core/test_faces.py",
    "cube/erased_note.py": "cube/test_erased_rows.py",
    "cube/array_groups.py": "run/test_in_memory.py",
    "cube/block_arrays.py": "cube/test_writer.py",
    "cube/memory_cube.py": "run/test_in_memory.py",
    "cube/bucket_stores.py": "storage/test_objects.py",
    "cube/importance.py": "cube/test_reader.py",
    "cube/metadata.py": "cube/test_layout.py",
    "cube/named_cubes.py": "cube/test_reader.py",
    "cube/notes.py": "cube/test_reader.py",
    "cube/progress.py": "cube/test_writer.py",
    "designs/kinds.py": "jobfile/test_kinds.py",
    "erasure/job_facts.py": "erasure/test_forgetting.py",
    "erasure/key_files.py": "erasure/test_forgetting.py",
    "erasure/kinds_of_places.py": "erasure/test_forgetting.py",
    "erasure/loaded_sinks.py": "erasure/test_forgetting.py",
    "erasure/read_rows.py": "erasure/test_forgetting.py",
    "erasure/renewed_seals.py": "erasure/test_forgetting.py",
    "erasure/report_pages.py": "erasure/test_forgetting.py",
    "erasure/run_texts.py": "erasure/test_forgetting.py",
    "erasure/sample_copies.py": "erasure/test_forgetting.py",
    "erasure/stored_cubes.py": "erasure/test_forgetting.py",
    "erasure/work.py": "erasure/test_forgetting.py",
    "sinks/line_removal.py": "erasure/test_forgetting.py",
    "tables/parts_without.py": "erasure/test_forgetting.py",
    "engine/clusters/arrivals.py": "engine/clusters/test_jobqueue.py",
    "engine/clusters/yaml_text.py": "engine/clusters/test_kubernetes.py",
    "jobs/page_to_mlflow.py": "models/adapters/test_mlflow_models.py",
    "history/fits.py": "steps/test_shared_cubes.py",
    "loops/codes.py": "loops/test_subset_products.py",
    "loops/game_sizes.py": "loops/test_product_games.py",
    "loops/sizes.py": "loops/test_subset_products.py",
    "loops/warming.py": "loops/test_subset_products.py",
    "report/pages/what_if_markup.py": "report/what_if/test_what_if_markup.py",
    "report/what_if/kernel_model.py": "report/what_if/test_games.py",
    "report/what_if/kinds.py": "report/what_if/test_games.py",
    "report/what_if/linear_model.py": "report/what_if/test_games.py",
    "report/what_if/model_record.py": "report/what_if/test_keeping.py",
    "report/what_if/tree_model.py": "report/what_if/test_games.py",
    "report/store_progress.py": "report/test_going_on.py",
    "run/homes.py": "run/test_in_memory.py",
    "run/planning.py": "run/test_explanation.py",
    "sinks/load.py": "sinks/test_loading.py",
    "analysis/column_values.py": "report/pictures/test_densities.py",
    "analysis/difference/compared_cubes.py": "analysis/difference/test_difference_record.py",
    "analysis/difference/cube_comparison.py": "analysis/difference/test_difference_record.py",
    "analysis/difference/row_changes.py": "analysis/difference/test_difference_record.py",
    "analysis/difference/row_pairs.py": "analysis/difference/test_difference_record.py",
    "analysis/importance_history.py": "report/pictures/test_over_runs.py",
    "analysis/pair_effects.py": "report/pictures/test_interaction_triangle.py",
    "analysis/rankings.py": "report/test_attribution_lines.py",
    "analysis/single_rows.py": "report/test_attribution_lines.py",
    "analysis/shades.py": "analysis/test_swarms.py",
    "analysis/side_by_side.py": "report/pictures/test_compare.py",
    "analysis/view.py": "report/pictures/test_densities.py",
    "api.py": "run/test_explanation.py",
    "attributors/game.py": "attributors/test_base.py",
    "attributors/learning.py": "engine/test_learn.py",
    "attributors/linear.py": "values/test_linear_gaussian.py",
    "attributors/nodes.py": "attributors/test_quadrature.py",
    "attributors/player_basis.py": "models/test_shapley.py",
    "attributors/states.py": "attributors/test_method.py",
    "attributors/trees.py": "values/test_trees.py",
    "blocks.py": "core/test_types.py",
    "errors.py": "test_mistakes.py",
    "core/blocks.py": "core/test_types.py",
    "storage/buckets.py": "storage/test_objects.py",
    "core/duck_typing.py": "predictors/test_frames.py",
    "storage/full_disk.py": "jobs/test_full_disk.py",
    "core/errors.py": "test_mistakes.py",
    "core/options.py": "engine/test_tiles.py",
    "core/records.py": "core/test_types.py",
    "cube/arrays.py": "cube/test_layout.py",
    "storage/links.py": "storage/test_workspace.py",
    "storage/private_folders.py": "history/test_leftovers.py",
    "storage/disk_files.py": "storage/test_folder.py",
    "cube/zarr_stores.py": "storage/test_objects.py",
    "cube/creation.py": "jobs/test_full_disk.py",
    "cube/checked_stores.py": "cube/test_packing.py",
    "cube/opening.py": "cube/test_packing.py",
    "cube/packed_documents.py": "cube/test_packing.py",
    "cube/receipts.py": "cube/test_packing.py",
    "cube/reference_copy.py": "cube/test_verify.py",
    "designs/kriging/interactions.py": "designs/test_interactions.py",
    "designs/kriging/posterior.py": "designs/kriging/test_design.py",
    "designs/kriging/solution.py": "designs/kriging/test_standard_errors.py",
    "engine/clients.py": "engine/test_cluster.py",
    "engine/clusters/installed.py": "jobfile/test_cluster_tables.py",
    "engine/clusters/python_file.py": "test_cli.py",
    "engine/explain.py": "engine/test_executors.py",
    "engine/graph.py": "engine/test_executors.py",
    "engine/progress.py": "engine/test_events.py",
    "engine/late_cluster.py": "test_cli.py",
    "jobfile/fields.py": "jobfile/test_schema.py",
    "jobinput/quality_of_job.py": "jobfile/test_arguments.py",
    "history/job_store.py": "steps/test_shared_cubes.py",
    "jobinput/job_model.py": "jobinput/test_job_columns.py",
    "steps/cubes_of_job.py": "steps/test_nightly_cubes.py",
    "steps/endings.py": "jobs/test_store_runs.py",
    "steps/holding.py": "jobs/test_cluster_check.py",
    "steps/job_cubes.py": "steps/test_nightly_cubes.py",
    "steps/opened.py": "steps/test_shared_cubes.py",
    "steps/plans.py": "jobs/test_planning.py",
    "steps/results.py": "jobs/test_store_runs.py",
    "steps/row_sources.py": "jobinput/test_job_source.py",
    "steps/under_way.py": "jobs/test_store_runs.py",
    "jobs/repair.py": "test_cli.py",
    "steps/seen_places.py": "jobs/test_cluster_check.py",
    "jobs/summary.py": "test_cli.py",
    "jobinput/job_rows.py": "steps/test_shared_cubes.py",
    "kernels/unbound.py": "kernels/test_product.py",
    "loops/exponents.py": "loops/test_subset_products.py",
    "loops/shared_rows.py": "loops/test_shared_sums.py",
    "loops/simd.py": "loops/test_shared_sums.py",
    "jobfile/source_tables.py": "jobinput/test_job_source.py",
    "jobfile/check_tables.py": "steps/test_judging.py",
    "sinks/database_tables.py": "sinks/test_loading.py",
    "warehouse/database_rows.py": "warehouse/test_looks.py",
    "warehouse/kinds.py": "jobinput/test_job_source.py",
    "models/adapters/onnx_classes.py": "models/adapters/test_onnx.py",
    "models/adapters/kernel_terms.py": "models/adapters/test_scikit_learn.py",
    "models/cost.py": "models/test_shapley.py",
    "models/kernel_model.py": "models/test_ridge.py",
    "models/labels.py": "models/test_logistic.py",
    "models/newton.py": "models/test_logistic.py",
    "models/passes.py": "models/test_ridge.py",
    "models/report.py": "models/test_ridge.py",
    "models/rows.py": "models/test_ridge.py",
    "models/shapley_penalty.py": "models/test_shapley.py",
    "predictors/expansion.py": "values/test_observational.py",
    "predictors/linear.py": "values/test_linear_gaussian.py",
    "predictors/named.py": "values/test_base.py",
    "predictors/predict_function.py": "predictors/test_frames.py",
    "predictors/token_function.py": "values/test_tokens.py",
    "trees/tree_categories.py": "values/test_tree_categories.py",
    "trees/tree_kinds.py": "values/test_trees.py",
    "trees/tree_libraries.py": "values/test_trees.py",
    "trees/tree_model.py": "values/test_trees.py",
    "trees/tree_scikit.py": "values/test_trees.py",
    "trees/catboost_trees.py": "trees/test_exact.py",
    "trees/coding.py": "trees/test_exact.py",
    "trees/tree_catboost.py": "trees/test_exact.py",
    "trees/ensemble.py": "trees/test_exact.py",
    "trees/groups.py": "trees/test_exact.py",
    "trees/patterns.py": "trees/test_exact.py",
    "trees/products.py": "trees/test_exact.py",
    "trees/walks.py": "trees/test_exact.py",
    "loops/tree_walks.py": "trees/test_exact.py",
    "trees/lightgbm_trees.py": "trees/test_exact.py",
    "trees/scikit_trees.py": "trees/test_exact.py",
    "trees/xgboost_trees.py": "trees/test_exact.py",
    "loops/tree_cut.py": "trees/test_exact.py",
    "loops/tree_dependence.py": "trees/test_dependence.py",
    "loops/tree_games.py": "trees/test_exact.py",
    "loops/tree_products.py": "trees/test_exact.py",
    "loops/tree_rows.py": "trees/test_exact.py",
    "records.py": "core/test_types.py",
    "report/pages/rendering.py": "report/pages/test_writing.py",
    "report/pages/content.py": "report/pages/test_writing.py",
    "report/pages/page_facts.py": "report/pages/test_writing.py",
    "report/pages/figures.py": "report/pages/test_writing.py",
    "report/pages/output_figures.py": "report/pages/test_writing.py",
    "report/panels.py": "report/pictures/test_densities.py",
    "report/picture_files.py": "report/pictures/test_ranking_picture.py",
    "report/notes.py": "analysis/test_accuracy.py",
    "report/store_summaries.py": "test_cli.py",
    "run/table_drift.py": "analysis/drift/test_table_comparison.py",
    "run/learned_method.py": "run/test_prepared_states.py",
    "run/measuring.py": "run/test_quality.py",
    "run/preparation.py": "run/test_prepared_states.py",
    "steps/facts_of_job.py": "jobs/test_store_runs.py",
    "steps/learned_methods.py": "steps/test_nightly_cubes.py",
    "sinks/checks.py": "sinks/test_loading.py",
    "sinks/dialects.py": "sinks/test_loading.py",
    "sinks/ledger.py": "sinks/test_loading.py",
    "sinks/records.py": "sinks/test_loading.py",
    "sinks/earlier_tables.py": "sinks/test_making.py",
    "sinks/cube_words.py": "sinks/test_making.py",
    "sinks/table_columns.py": "sinks/test_shapes.py",
    "sinks/line_forms.py": "sinks/test_reasons.py",
    "steps/asked_codes.py": "jobs/test_reason_jobs.py",
    "steps/load_facts.py": "jobs/test_reason_jobs.py",
    "sources.py": "test_tables.py",
    "tables/columns.py": "tables/test_parquet.py",
    "tables/reader.py": "tables/test_parquet.py",
    "tables/site.py": "run/test_session.py",
    "values/embedded.py": "values/test_regression.py",
    "values/interventional.py": "values/test_observational.py",
    "values/marginal.py": "values/test_observational.py",
    "values/normal.py": "values/test_gaussian.py",
    "values/subset_table.py": "loops/test_member_sums.py",
    "values/terms.py": "models/test_shapley.py",
}
"""Module without a test file of its name -> the file that holds its tests, below tests/."""
OF_LIBRARIES = {"_replace", "_asdict", "_exit", "_repr_html_"}
"""Names with an underscore that are public: of named tuples, of `os`, and of notebooks."""


def modules() -> set[str]:
    """Modules of the package that hold something, below dshap/: not those that only say what a room
    has."""
    paths = (
        path.relative_to(PACKAGE)
        for path in PACKAGE.rglob("*.py")
        if not path.name.startswith("__")
    )
    return {path.as_posix() for path in paths}


def mirror(module: str) -> str:
    """designs/exact.py -> designs/test_exact.py"""
    path = Path(module)
    return path.with_name(f"test_{path.name}").as_posix()


def test_every_module_has_its_tests():
    assert [
        module
        for module in modules()
        if not (TESTS / ELSEWHERE.get(module, mirror(module))).exists()
    ] == []


def test_every_line_is_of_a_module_without_a_test_file_of_its_name():
    assert ELSEWHERE.keys() <= modules()
    assert [module for module in ELSEWHERE if (TESTS / mirror(module)).exists()] == []


def test_folders_of_tests_are_rooms():
    rooms = {path.parent.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*/__init__.py")}
    assert {
        path.parent.relative_to(TESTS).as_posix() for path in TESTS.rglob("*/*.py")
    } == rooms | BESIDE


def reached(source: str) -> Iterator[str]:
    """Private names of the package that a test reaches into: imported, of an object that is not
    `self`, or patched."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dshap"):
            yield from (alias.name for alias in node.names if is_private(alias.name))
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            if getattr(node.value, "id", "") not in ("self", "cls"):
                yield node.attr
        elif isinstance(node, ast.Call) and getattr(
            node.func, "attr", getattr(node.func, "id", "")
        ).endswith("attr"):
            texts = (
                each.value
                for each in node.args
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            )
            yield from (text for text in texts if is_private(text.rpartition(".")[2]))


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in OF_LIBRARIES


@pytest.mark.slow
def test_no_test_reaches_into_a_private_name():
    found = {
        path.relative_to(TESTS).as_posix(): list(reached(path.read_text()))
        for path in TESTS.rglob("*.py")
    }
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "source",
    [
        "from dshap.cube.summary import _share",
        "form._trials(3)",
        'monkeypatch.setattr("dshap.cube.arrays._blocks", broken)',
        'setattr(writer, "_array", broken)',
    ],
)
def test_what_reaches_is_told(source):
    assert len(list(reached(source))) == 1
    assert (
        list(reached("self._of(3); np.__version__; place._replace(a=1); from numpy import _core"))
        == []
    )
