"""A contract for import-linter: one package may import only what is listed."""

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class AllowedImports(Contract):
    """`source` and all below it may import, inside the project, only itself and the `allowed` packages."""

    source = fields.StringField()
    allowed = fields.ListField(subfield=fields.StringField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        importers = {self.source, *graph.find_descendants(self.source)}
        found = [
            (importer, imported)
            for importer in sorted(importers)
            for imported in sorted(graph.find_modules_directly_imported_by(importer))
            if self._is_ours(imported) and not self._is_allowed(imported)
        ]
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for importer, imported in check.metadata["found"]:
            output.print_error(f"{importer} must not import {imported}")

    def _is_ours(self, module: str) -> bool:
        roots = self.session_options["root_packages"]
        return module.partition(".")[0] in roots

    def _is_allowed(self, module: str) -> bool:
        allowed = [self.source, *self.allowed]
        return any(module == package or module.startswith(f"{package}.") for package in allowed)
