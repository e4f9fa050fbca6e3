"""Writers: the one that started last goes on."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from threading import Thread

import pytest

from tidegate.errors import StateError
from tidegate.state.files import LocalFiles
from tidegate.state.writers import Claim, check_claim, claim

from .manifests import manifest


@pytest.fixture
def files(tmp_path: Path) -> LocalFiles:
    return LocalFiles(str(tmp_path / "tidegate"))


def test_the_one_that_started_before_stops_and_says_who_writes(
    files: LocalFiles, tmp_path: Path
) -> None:
    older = claim(files, None).writer
    check_claim(files, older)
    newer = claim(files, None).writer
    check_claim(files, newer)
    with pytest.raises(StateError) as error:
        check_claim(files, older)
    me = f"process {os.getpid()} on {socket.gethostname()}"
    assert str(error.value) == (
        f"another query writes to checkpoint {tmp_path}: {me} (since {newer.started})\n\n"
        f"This one, {me} (since {older.started}), stops, and its current batch is not "
        "committed. Only one query may use a checkpoint: stop the other one, or start this one "
        "with a checkpoint of its own."
    )


def test_one_that_wrote_before_a_copy_was_put_back_stops_although_the_term_is_the_same(
    files: LocalFiles,
) -> None:
    before = claim(files, None).writer
    files.delete("writers/1.json")
    check_claim(files, claim(files, None).writer)
    with pytest.raises(StateError, match="another query writes to checkpoint"):
        check_claim(files, before)


def test_claims_of_one_moment_have_terms_and_ids_of_their_own(files: LocalFiles) -> None:
    claims: list[Claim] = []
    threads = [Thread(target=lambda: claims.append(claim(files, None))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.writer.term for each in claims) == list(range(1, 9))
    assert len({each.writer.id for each in claims}) == 8
    assert len({each.checkpoint_id for each in claims}) == 1


def test_the_id_of_a_checkpoint_stays_before_and_after_the_first_manifest(
    files: LocalFiles,
) -> None:
    first = claim(files, None).checkpoint_id
    assert len(first) == 32
    assert claim(files, None).checkpoint_id == first
    # Claims may be gone, as in a copy of the rest.
    files.delete("writers")
    assert claim(files, manifest(0, checkpoint_id=first)).checkpoint_id == first


def test_a_claim_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "tidegate").write_text("a file where the folder should be")
    with pytest.raises(StateError, match="writers cannot be written"):
        claim(LocalFiles(str(tmp_path / "tidegate")), None)
