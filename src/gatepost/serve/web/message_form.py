"""The form of a message as a browser sends it: its fields and its files, within their limits."""

from collections.abc import AsyncGenerator

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from gatepost.core.errors import Invalid
from gatepost.messages.inbound import Attachment, AttachmentKind
from gatepost.messages.text import clean

MOST_FILES = 20
LONGEST_TEXT = 200_000  # characters
OVERHEAD = 64 * 1024  # bytes of a form beside its files and its text


class UploadTooLarge(Invalid):
    def __init__(self, megabytes: int) -> None:
        super().__init__("message", f"it is larger than {megabytes} MB, the limit of web.max_upload_mb")


async def read_form(request: Request, megabytes: int) -> FormData:
    """The form, within its limit. The announced length is not believed: what comes is counted."""
    limit = megabytes * 1024 * 1024 + OVERHEAD

    async def counted() -> AsyncGenerator[bytes, None]:
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit:
                raise UploadTooLarge(megabytes)
            yield chunk

    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise Invalid("content-type", "multipart/form-data is expected")
    parser = MultiPartParser(
        request.headers, counted(), max_files=MOST_FILES, max_fields=20, max_part_size=4 * LONGEST_TEXT + OVERHEAD
    )
    try:
        return await parser.parse()
    except MultiPartException as error:
        raise Invalid("form", error.message) from None


def get_field(form: FormData, name: str) -> str:
    value = form.get(name, "")
    return value if isinstance(value, str) else ""


async def read_upload(upload: UploadFile) -> Attachment:
    mime = (upload.content_type or "application/octet-stream").partition(";")[0].strip().lower()
    kind = mime.partition("/")[0]
    return Attachment(
        name=clean(upload.filename or "file"),
        mime=mime,
        data=await upload.read(),
        kind=AttachmentKind(kind) if kind in set(AttachmentKind) else AttachmentKind.FILE,
    )
