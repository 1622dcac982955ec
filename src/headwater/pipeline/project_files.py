"""The files of a project while it runs: what has become of them is taken up, if it is sound."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from headwater.errors import HeadwaterError
from headwater.project.project import Project, file_signature
from headwater.project.settings import FILE


class ProjectFiles:
    """Looks at a project's files again and again."""

    def __init__(self, project: Project) -> None:
        self.trouble = ""
        """Why they are not taken up as they are now."""
        self._seen = file_signature(project.folder)

    def look(self, project: Project) -> Project | None:
        """The project as its files have it now, if they have changed and can be taken up."""
        signature = file_signature(project.folder)
        if signature == self._seen:
            return None
        self._seen = signature
        try:
            found = Project.open(project.folder, only=())
        except HeadwaterError as error:
            self.trouble = f"The project's files are not taken up: {error}"
            return None
        if found.settings != project.settings:
            self.trouble = f"{FILE} has changed: restart 'headwater run' to have it so."
            return None
        self.trouble = "" if found.refused else "\n".join(map(str, found.mistakes))
        return _with_earlier(found, project)


def with_sound(project: Project, names: Collection[str]) -> Project:
    """A project with the files of these views as they are now, and of all others that can be read;
    of one that cannot, as it was."""
    return _with_earlier(Project.open(project.folder, only=names), project)


def _with_earlier(opened: Project, project: Project) -> Project:
    paths = {file.path for file in opened.view_files.values()}
    kept = {
        name: file
        for name, file in project.view_files.items()
        if name not in opened.view_files and file.path not in paths and file.path.exists()
    }
    return replace(
        opened,
        settings=project.settings,
        view_files={**opened.view_files, **kept},
        needs={**opened.needs, **{name: project.needs[name] for name in kept}},
    )
