"""What the core promises, one sentence each, and which tests show it.

A test says what it shows with `@pytest.mark.requirement("id")`; `SHOWN_BY` says it for tests that
speak of a single room. `test_requirements.py` keeps both in step with the tests. Figures of speed are
no requirements here: `make bench` prints them.
"""

from collections.abc import Mapping, Sequence

REQUIREMENTS: Mapping[str, str] = {
    # Starting
    "run.sample": "Without VAULT_PATH a sample vault is served, and the URL and the claude line are printed.",
    "settings.problems": "All problems of the settings are listed at once, with a non-zero status.",
    "settings.auth": "AUTH must be said when HOST is not loopback.",
    "settings.check": "`config check` prints the effective settings with secrets hidden.",
    "start.port": "A port in use ends in one clear line and a non-zero status.",
    # The vault
    "vault.paths": "One validator refuses every path that could leave the vault or that Obsidian can't link.",
    "vault.links": "Symbolic links that leave the vault are refused.",
    "vault.unicode": "A note stored in NFD is read by its NFC path.",
    "vault.contract": "One suite holds on a local folder, an rclone mount and a drive mount, with rc and without.",
    "vault.journal": "A write is in the journal before the vault is touched, and replayed or reported at start.",
    "vault.journal.bounded": "The journal is bounded and can be inspected.",
    "vault.pinned": "No write lands beneath a lost mount or in a folder put in the vault's place.",
    "vault.moves": "Moves and removals hold on every storage, and never land on what is there.",
    "vault.plans": "Several changes happen all or not at all, whatever fails and wherever the server dies.",
    "edit.move_crash": "After kill -9 in a folder's move every note and every link is where it belongs.",
    "edit.move_mount": "A folder moves with its links on a real drive mount, with rc and without.",
    "vault.create_once": "Of several who create a note at once, one wins.",
    "vault.errors": "Every OSError becomes a domain error without a host path.",
    "vault.deadline": "A hung mount never hangs the server: every touch has a deadline and a bounded pool.",
    # The mount guard
    "guard.state": "The guard tells the real vault from a missing, empty, foreign or unmounted one.",
    "guard.degraded": "While the vault is away writes are unavailable and reads and searches say stale.",
    "guard.keeps": "While the vault is away the scanner deletes nothing from the index.",
    "guard.recovers": "When the mount returns everything recovers without a restart.",
    "guard.probes": "/healthz and /metrics answer whatever the mount does.",
    "guard.told": "State changes are logged and counted.",
    # Markdown
    "markdown.parts": "Tags, aliases, headings, links, blocks, tasks and titles are those that Obsidian sees.",
    "markdown.malformed": "Malformed frontmatter costs a note nothing but its properties.",
    "markdown.linear": "Parsing takes linear time, whatever the text.",
    # Index, mirror, scanner
    "index.diff": "What a scan changes is a pure function of disk and index.",
    "index.renames": "A renamed note is recognised by its content.",
    "index.racy": "An edit within the clock's resolution is still seen.",
    "index.own_writes": "A read or a search right after a write sees it.",
    "index.external_edits": "What others do is seen within a scan interval.",
    "index.restart": "A restart serves the persisted index at once.",
    "index.crash": "Killed at any moment, the index opens whole.",
    # Catalog and doors
    "catalog.tools": "Eight tools are listed with titles, descriptions, annotations and both schemas.",
    "catalog.schemas": "Every result validates against its declared schema and equals its text.",
    "catalog.small": "tools/list stays under 12 KB for the model and 30 KB in all.",
    "catalog.obsidian_url": "Results that name a file carry its obsidian:// link.",
    "catalog.paging": "Long notes and lists come in pages that leave nothing out.",
    "catalog.bounded": "No allowed call has an answer that a client can't take.",
    "errors.shape": "An error has a code, a message and a hint, the same at every door.",
    "door.same": "Every operation behaves the same over HTTP and stdio, in both protocol eras.",
    "door.origins": "Foreign hosts and origins are refused.",
    "door.sessions": "Sessions are capped, end when idle and belong to who opened them.",
    "door.ids": "Two requests in flight never get each other's answers.",
    "door.conformance": "The protocol's conformance suite passes.",
    "auth.token": "With a token set /mcp refuses whoever lacks it, and /healthz stays open.",
    "stdio.clients": "The official Python client uses every tool over stdio in both eras.",
    "stdio.protocol_only": "stdout carries the protocol alone.",
    "stdio.ends": "EOF, SIGINT and SIGTERM end stdio with status 0 after what is in flight.",
    "stdio.quick": "The first answers over stdio are measured.",
    # Edits
    "edit.write": "note_write creates once, overwrites by etag, appends on a new line, prepends below properties.",
    "edit.patch": "A patch changes what it names and no other byte, and answers with its diff.",
    "edit.frontmatter": "Setting a property changes only the lines of that property.",
    "edit.unchanged": "An edit that changes nothing writes nothing and leaves no trace.",
    "edit.refused": "A refused edit changes nothing and says what there is and what to do.",
    "edit.merge": "Changes of two that don't touch are merged; others are a conflict with both etags and a diff.",
    "edit.once": "A call that is sent again with its key is made once, whatever died in between.",
    "edit.several": "Several edits are made all or not at all.",
    "edit.delete": "What is deleted goes to the trash or stays in the history, and is found nowhere else.",
    "edit.move": "After a move links lead where they led, and the index agrees at once.",
    "edit.heading": "Links to a heading follow its new name.",
    "edit.modes": "Every writing operation is refused when writing is off and only shown in a dry run.",
    "edit.concurrent": "Edits of many agents on a mount are all there, and the history is an unbroken chain.",
    # Operations
    "ops.probes": "/healthz tells of the process, /readyz of mount and index.",
    "ops.metrics": "/metrics counts calls, scans, notes, index, mount, sessions, rg runs, writes and conflicts.",
    "ops.log": "Every call is one log line with caller, tool, subject, decision and duration.",
    "ops.secrets": "What looks like a credential is never logged.",
    "stop.streams": "SIGTERM ends the server within five seconds although streams are open.",
    # To be shown
    "clients.python": "The official Python client lists and calls all tools in both eras.",
    "clients.typescript": "The official TypeScript clients list and call all tools in both eras.",
    "tool.note_read": "An absent note reads exists=false and empty content; others come whole or in part.",
    "tool.note_upsert.create": "Creating writes YAML frontmatter and the content.",
    "tool.note_upsert.append": "Appending adds exactly a newline and the content and ignores frontmatter.",
    "tool.vault_search": "vault_search gives path, line and text, and [] without a match.",
    "tool.vault_search.bad_regex": "A bad regex is invalid_request with ripgrep's own explanation.",
    "tool.vault_search.no_options": "Neither query nor path_filter can become an option of rg.",
    "write.concurrent": "200 appends of 8 clients at once to 5 notes: every line once, none torn.",
    "write.two_servers": "Two servers on one vault, with one state folder or two, lose no line.",
    "write.kill9": "After kill -9 of the server every note is the old or the new, and the index agrees.",
    "write.survives_rclone": "An acknowledged write survives kill -9 of rclone, with rc and without.",
    "input.paths": "Bad paths are coded errors.",
    "input.huge_body": "Bodies and contents beyond the limit are refused, those within it are taken.",
    "input.invalid_utf8": "Text that is none is a coded error.",
    "input.binary": "A binary file named .md is no text and harms nothing.",
    "input.giant_note": "A 50 MB note is too_large to read, and searches and scans go on.",
    "input.deep_folders": "200 levels of folders work.",
    "input.regex": "Monstrous patterns are refused or answered in time.",
    "input.malformed_yaml": "A note with malformed YAML is indexed as text, with a warning.",
    "input.unknown_arguments": "Unknown arguments are refused by every tool.",
    "input.types": "Arguments of the wrong type or size are coded errors.",
}  # fmt: skip

SHOWN_BY: Mapping[str, Sequence[str]] = {
    "settings.problems": (
        "unit/test_settings.py::test_every_problem_is_listed_at_once",
        "unit/test_cli.py::test_every_problem_is_a_line_and_the_status_is_2",
    ),
    "settings.auth": ("unit/test_settings.py::test_a_reachable_host_needs_a_word_about_auth",),
    "settings.check": (
        "unit/test_cli.py::test_the_settings_as_text",
        "unit/test_settings.py::test_a_token_is_a_secret",
    ),
    "start.port": (
        "doors/test_serve.py::test_a_port_in_use_is_one_clear_line",
        "unit/test_cli.py::test_a_port_that_is_taken_is_one_clear_line",
    ),
    "vault.paths": ("unit/vault/test_paths.py::test_what_passes_is_safe",),
    "vault.links": (
        "unit/vault/test_files.py::test_links_that_leave_the_vault_are_refused",
        "unit/vault/test_files.py::test_a_linked_folder_that_leaves_is_refused",
    ),
    "vault.unicode": ("unit/vault/test_files.py::test_a_name_stored_in_nfd_is_found_by_its_nfc_path",),
    "vault.contract": (
        "contract/test_vault.py::test_write_then_read_and_the_truth_behind",
        "contract/test_vault.py::test_no_append_is_lost_between_threads_and_processes",
    ),
    "vault.journal": (
        "unit/vault/test_recovery.py::test_an_acknowledged_write_is_made_again_on_a_new_mount",
        "unit/vault/test_recovery.py::test_an_unacknowledged_write_that_was_not_made_is_set_aside",
        "unit/vault/test_vault.py::test_a_full_journal_refuses_before_the_vault_is_touched",
    ),
    "vault.journal.bounded": (
        "unit/vault/test_journal.py::test_the_journal_is_bounded",
        "unit/test_cli.py::test_what_waits_in_the_journals_of_all_slots",
    ),
    "vault.pinned": (
        "real/test_mount_loss.py::test_a_mount_that_goes_away",
        "unit/service/test_losing_the_vault.py::test_a_folder_put_in_the_vaults_place_is_not_written_beside",
    ),
    "vault.create_once": ("contract/test_vault.py::test_of_many_creators_one_wins",),
    "vault.errors": ("unit/vault/test_files.py::test_every_errno_becomes_a_domain_error_without_a_path",),
    "vault.deadline": (
        "real/test_mount_loss.py::test_a_mount_that_hangs",
        "unit/test_workers.py::test_a_pool_full_of_stuck_work_fails_at_once_and_recovers",
    ),
    "guard.state": (
        "unit/vault/test_guard.py::test_a_vault_that_is_suddenly_an_empty_folder",
        "unit/vault/test_guard.py::test_a_required_mount_is_required",
        "unit/vault/test_guard.py::test_another_vault_in_its_place",
    ),
    "guard.degraded": (
        "real/test_mount_loss.py::test_a_mount_that_goes_away",
        "unit/service/test_losing_the_vault.py::test_stale_answers_no_writes_and_back_again",
    ),
    "guard.keeps": (
        "real/test_mount_loss.py::test_a_mount_that_goes_away",
        "unit/scanner/test_scanner.py::test_a_scan_that_fails_half_way_removes_nothing",
    ),
    "guard.recovers": (
        "real/test_mount_loss.py::test_a_mount_that_goes_away",
        "real/test_mount_loss.py::test_a_server_that_starts_before_its_mount",
    ),
    "guard.probes": ("real/test_mount_loss.py::test_a_mount_that_hangs",),
    "guard.told": ("unit/vault/test_guard.py::test_state_changes_are_counted",),
    "markdown.parts": (
        "unit/markdown/test_notes.py::test_every_text_is_a_note_whose_elements_are_where_they_say",
        "unit/markdown/test_notes.py::test_link",
        "unit/markdown/test_notes.py::test_tag",
    ),
    "markdown.malformed": ("unit/markdown/test_notes.py::test_malformed_frontmatter_keeps_the_note",),
    "markdown.linear": ("unit/markdown/test_linear_time.py::test_repeated",),
    "index.diff": ("unit/scanner/test_diff.py::test_diff_is_what_sets_say",),
    "index.renames": ("unit/scanner/test_scanner.py::test_a_rename_keeps_the_note_and_the_links",),
    "index.racy": ("unit/scanner/test_scanner.py::test_an_edit_within_the_clocks_resolution_is_seen",),
    "index.restart": (
        "unit/index/test_store.py::test_what_was_stored_is_there_after_reopening",
        "real/test_mount_loss.py::test_a_restart_while_the_mount_is_away_serves_the_mirror",
    ),
    "index.crash": ("unit/index/test_recovery.py::test_killed_at_any_moment_it_reopens_whole",),
    "door.same": ("doors/test_every_door.py::test_a_result_is_data_and_the_same_as_compact_text",),
    "door.origins": (
        "doors/test_http.py::test_another_host_name_is_misdirected",
        "doors/test_http.py::test_a_foreign_page_is_forbidden",
    ),
    "door.sessions": (
        "doors/test_http.py::test_sessions_are_capped_and_abandoned_ones_end",
        "doors/test_http.py::test_a_session_belongs_to_the_caller_who_opened_it",
    ),
    "door.ids": (
        "doors/test_http.py::test_a_request_id_in_flight_is_not_taken_twice",
        "doors/test_stdio.py::test_a_request_id_in_flight_is_not_taken_twice",
    ),
    "door.conformance": ("real/test_conformance.py::test_a_scenario_passes",),
    "ops.probes": (
        "doors/test_http.py::test_healthz_is_the_process_alone",
        "doors/test_http.py::test_readyz_tells_the_state",
    ),
    "ops.secrets": ("unit/test_telemetry.py::test_what_looks_like_a_credential_is_never_logged",),
    "write.kill9": ("real/test_crashes.py::test_kill_9_of_the_server_in_mid_write",),
    "write.survives_rclone": ("real/test_crashes.py::test_an_acknowledged_write_survives_kill_9_of_rclone",),
}  # fmt: skip
