"""The loops behind ``Workflow.run``, ``react`` and ``arun``: one process, nothing stored."""

from weft.calling import aexecute, execute, whole
from weft.local.clock import new_run_id, new_secret, now
from weft.local.concurrent import adrive, drive_concurrently
from weft.local.policies import checked, choose, policies_in_memory, preview
from weft.local.policy_driver import PolicyDriver
from weft.local.serial import drive, evaluate, react
from weft.policy.advice import rule_findings
from weft.policy.matching import combine, declared_policy, with_declared, within

__all__ = [
    "PolicyDriver",
    "adrive",
    "aexecute",
    "checked",
    "choose",
    "combine",
    "declared_policy",
    "drive",
    "drive_concurrently",
    "evaluate",
    "execute",
    "new_run_id",
    "new_secret",
    "now",
    "policies_in_memory",
    "preview",
    "react",
    "rule_findings",
    "whole",
    "with_declared",
    "within",
]
