# SPDX-License-Identifier: Apache-2.0
"""The process group: collectives of torch.distributed as calls of a rendezvous."""
from __future__ import annotations

from datetime import timedelta
from typing import Any, Callable, List, Optional, Sequence

import torch
import torch.distributed as dist

from lossgrid.shared_group.errors import CollectiveMismatch
from lossgrid.shared_group.forms import (counts_of, listed, parts_of, require_form, rows_for,
                                         written_parts_of)
from lossgrid.shared_group.mail import Mail
from lossgrid.shared_group.members import Members
from lossgrid.shared_group.reductions import reduce_into, require_reducible, word
from lossgrid.shared_group.registration import NAME
from lossgrid.shared_group.rendezvous import Rendezvous, bytes_for, nbytes, unseen
from lossgrid.shared_group.signature import dtype_name, signature
from lossgrid.shared_group.work import DoneWork, JointWork, SharedWork

Tensor = torch.Tensor
Write = Callable[[List[int]], None]


class SharedGroup(dist.ProcessGroup):  # type: ignore[misc]
    """A group of processes of one machine, which meet through shared memory.

    Methods have the names and arguments of torch.distributed's ProcessGroup. Where torch has given
    one a second name, both are there.
    """

    def __init__(self, store: Any, rank: int, size: int, ranks: Sequence[int],
                 timeout: timedelta) -> None:
        super().__init__(rank, size)
        self._group_name = self._group_desc = ""
        self._rank = rank
        self._size = size
        self._ranks = tuple(ranks) or tuple(range(size))
        self._members = Members(store, rank, self._ranks, timeout, self._shown_name)
        self._rendezvous = Rendezvous(self._members)
        self._mail = Mail(self._members, self._rendezvous)
        self._coalesced: Optional[List[SharedWork]] = None

    # Facts.

    def getBackendName(self) -> str:
        return NAME

    def getGroupName(self) -> str:
        return self._group_name

    def setGroupName(self, name: str) -> None:
        self._group_name = name

    def getGroupDesc(self) -> str:
        return self._group_desc

    def setGroupDesc(self, text: str) -> None:
        self._group_desc = text

    # torch reads these from Python where it has no backend of its own to ask.
    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)
    _set_group_name = setGroupName
    _set_group_desc = setGroupDesc

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    @property
    def supports_splitting(self) -> bool:
        return False

    @property
    def supports_coalescing(self) -> bool:
        return False

    def _get_backend(self, _: torch.device) -> "SharedGroup":
        return self

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _get_sequence_number_for_group(self) -> int:
        return self._rendezvous.posted

    def set_timeout(self, timeout: timedelta) -> None:
        self._members.timeout = timeout

    _set_default_timeout = set_timeout

    def shutdown(self) -> None:
        pass

    def abort(self) -> None:
        pass

    def _shown_name(self) -> str:
        if self._group_desc == "default_pg":
            return "'world'"
        ranks = "ranks " + ", ".join(map(str, self._ranks))
        return ranks if self._group_desc in ("", "undefined") else f"'{self._group_desc}' ({ranks})"

    # One call.

    def _call(self, encoded: bytes, payload: Sequence[Tensor], results: Sequence[Tensor],
              write: Optional[Write], opts: Any = None) -> SharedWork:
        if self._is_awaited(opts):
            self._rendezvous.post_and_complete(encoded, payload, results, write)
            return DoneWork(results)
        call = self._rendezvous.post(encoded, payload, results, write)
        work = SharedWork(self._rendezvous, call, results)
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _is_awaited(self, opts: Any) -> bool:
        """True if ``opts`` are of a call whose handle is waited for before it is returned."""
        return not getattr(opts, "asyncOp", True) and self._coalesced is None

    def _views(self, offsets: List[int], like: Tensor, skipped: int = 0) -> List[Tensor]:
        """Returns each member's tensor of the form of ``like``, ``skipped`` bytes into its
        payload."""
        dtype, shape = like.dtype, like.shape
        return [segment.view(offset + skipped, dtype, shape)
                for segment, offset in zip(self._members.segments, offsets)]

    def _view(self, offsets: List[int], member: int, like: Tensor, skipped: int = 0) -> Tensor:
        return self._members.segments[member].view(offsets[member] + skipped, like.dtype,
                                                   like.shape)

    def _world_rank(self, rank: int) -> int:
        return self._ranks[rank]

    # Reductions.

    def allreduce(self, tensors: Any, opts: Any = None) -> SharedWork:
        return self._all_reduce("all_reduce", listed(tensors), opts or dist.AllreduceOptions())

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> SharedWork:
        return self._all_reduce("all_reduce_coalesced", listed(tensors),
                                opts or dist.AllreduceCoalescedOptions())

    def _all_reduce(self, op: str, tensors: List[Tensor], opts: Any) -> SharedWork:
        reduce = word(opts.reduceOp)
        for tensor in tensors:
            require_reducible(reduce, tensor.dtype)

        def write(offsets: List[int]) -> None:
            skipped = 0
            for tensor in tensors:
                reduce_into(tensor, self._views(offsets, tensor, skipped), reduce)
                skipped += nbytes(tensor)

        # Alone, the payload is the result.
        if self._size == 1 and self._is_awaited(opts):
            return DoneWork(tensors)
        return self._call(_signature(op, tensors, reduce), tensors, tensors,
                          write if self._size > 1 else None, opts)

    def reduce(self, tensors: Any, opts: Any) -> SharedWork:
        (tensor,) = listed(tensors)
        reduce, root = word(opts.reduceOp), opts.rootRank
        require_reducible(reduce, tensor.dtype)

        def write(offsets: List[int]) -> None:
            reduce_into(tensor, self._views(offsets, tensor), reduce)

        return self._call(_signature("reduce", [tensor], reduce, self._world_rank(root)), [tensor],
                          [tensor], write if root == self._rank else None, opts)

    def reduce_scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> SharedWork:
        opts = opts or dist.ReduceScatterOptions()
        (output,), (given,) = listed(outputs), inputs
        return self._reduce_scatter("reduce_scatter", [output], [given], opts)

    def reduce_scatter_single(self, output: Tensor, given: Tensor, opts: Any = None) -> SharedWork:
        return self.reduce_scatter_single_coalesced([output], [given], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor],
                                        opts: Any = None) -> SharedWork:
        opts = opts or dist.ReduceScatterOptions()
        parts = [parts_of(one, output, self._size, "the input of reduce_scatter")
                 for one, output in zip(inputs, outputs)]
        return self._reduce_scatter("reduce_scatter", outputs, parts, opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _reduce_scatter(self, op: str, outputs: Sequence[Tensor],
                        inputs: Sequence[Sequence[Tensor]], opts: Any) -> SharedWork:
        reduce = word(opts.reduceOp)
        for output, parts in zip(outputs, inputs):
            require_reducible(reduce, output.dtype)
            require_form(op, parts[self._rank], output)
        payload = [part for parts in inputs for part in parts]
        counts = [count for parts in inputs for count in counts_of(parts)]

        def write(offsets: List[int]) -> None:
            skipped = 0
            for output, parts in zip(outputs, inputs):
                sizes = [nbytes(part) for part in parts]
                before = skipped + sum(sizes[:self._rank])
                reduce_into(output, self._views(offsets, output, before), reduce)
                skipped += sum(sizes)

        return self._call(signature(op, payload[0].dtype, tuple(counts), reduce), payload, outputs,
                          write, opts)

    # Gathers.

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> SharedWork:
        (given,) = listed(inputs)
        (wanted,) = outputs
        return self._all_gather([wanted], [given], opts)

    def allgather_coalesced(self, outputs: Any, inputs: Sequence[Tensor],
                            opts: Any = None) -> SharedWork:
        return self._all_gather([list(of_ranks) for of_ranks in zip(*outputs)], inputs, opts)

    def all_gather_single(self, output: Tensor, given: Tensor, opts: Any = None) -> SharedWork:
        return self.all_gather_single_coalesced([output], [given], opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor],
                                    opts: Any = None) -> SharedWork:
        parts = [written_parts_of(output, one, self._size, "the output of all_gather")
                 for output, one in zip(outputs, inputs)]
        return self._all_gather(parts, inputs, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _all_gather(self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor],
                    opts: Any) -> SharedWork:
        for wanted, given in zip(outputs, inputs):
            if len(wanted) != self._size:
                raise RuntimeError(f"all_gather of {self._size} ranks into {len(wanted)} tensors")
            for one in wanted:
                require_form("all_gather", given, one)

        def write(offsets: List[int]) -> None:
            skipped = 0
            for wanted, given in zip(outputs, inputs):
                for member, one in enumerate(wanted):
                    one.copy_(self._view(offsets, member, one, skipped))
                skipped += nbytes(given)

        return self._call(_signature("all_gather", inputs), inputs,
                          [one for wanted in outputs for one in wanted], write, opts)

    def gather(self, outputs: Any, inputs: Any, opts: Any) -> SharedWork:
        (given,), root = listed(inputs), opts.rootRank
        wanted = list(outputs[0]) if self._rank == root else []
        return self._gather(wanted, given, root)

    def gather_single(self, output: Tensor, given: Tensor, opts: Any) -> SharedWork:
        root = opts.rootRank
        wanted = (written_parts_of(output, given, self._size, "the output of gather")
                  if self._rank == root else [])
        return self._gather(wanted, given, root)

    gather_into_tensor = gather_single

    def _gather(self, wanted: List[Tensor], given: Tensor, root: int) -> SharedWork:
        if self._rank == root and len(wanted) != self._size:
            raise RuntimeError(f"gather of {self._size} ranks into {len(wanted)} tensors")
        for one in wanted:
            require_form("gather", given, one)

        def write(offsets: List[int]) -> None:
            for member, one in enumerate(wanted):
                one.copy_(self._view(offsets, member, one))

        return self._call(_signature("gather", [given], root=self._world_rank(root)), [given],
                          wanted, write if wanted else None)

    # Copies from one rank, and between all.

    def broadcast(self, tensors: Any, opts: Any) -> SharedWork:
        (tensor,), root = listed(tensors), opts.rootRank
        is_root = root == self._rank

        def write(offsets: List[int]) -> None:
            tensor.copy_(self._view(offsets, root, tensor))

        return self._call(_signature("broadcast", [tensor], root=self._world_rank(root)),
                          [tensor] if is_root else [], [tensor], None if is_root else write, opts)

    def scatter(self, outputs: Any, inputs: Any, opts: Any) -> SharedWork:
        (output,), root = listed(outputs), opts.rootRank
        payload = list(inputs[0]) if self._rank == root else []
        if self._rank == root and len(payload) != self._size:
            raise RuntimeError(f"scatter of {len(payload)} tensors to {self._size} ranks")
        for one in payload:
            require_form("scatter", one, output)

        def write(offsets: List[int]) -> None:
            output.copy_(self._view(offsets, root, output, self._rank * nbytes(output)))

        return self._call(_signature("scatter", [output], root=self._world_rank(root)), payload,
                          [output], write)

    def alltoall(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor],
                 opts: Any = None) -> SharedWork:
        for one in (outputs, inputs):
            if len(one) != self._size:
                raise RuntimeError(f"all_to_all of {len(one)} tensors between {self._size} ranks")
        return self._all_to_all(outputs, inputs)

    def all_to_all_single(self, output: Tensor, given: Tensor, output_sizes: Sequence[int],
                          input_sizes: Sequence[int], opts: Any = None) -> SharedWork:
        return self._all_to_all(rows_for(output, output_sizes, self._size, "output"),
                                rows_for(given, input_sizes, self._size, "input"))

    alltoall_base = all_to_all_single

    def _all_to_all(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> SharedWork:
        # A member reads how much each of the others sends, and wants, in front of its payload.
        with unseen():
            counts = torch.tensor([[one.numel() for one in inputs],
                                   [one.numel() for one in outputs]], device="cpu")
        dtype = inputs[0].dtype

        def write(offsets: List[int]) -> None:
            tables = [view.tolist() for view in self._views(offsets, counts)]
            self._compare_tables(tables, dtype)
            for member, output in enumerate(outputs):
                skipped = nbytes(counts) + sum(bytes_for(size, dtype)
                                               for size in tables[member][0][:self._rank])
                output.copy_(self._view(offsets, member, output, skipped))

        return self._call(signature("all_to_all", dtype), [counts, *inputs], outputs, write)

    def _compare_tables(self, tables: Sequence[Any], dtype: torch.dtype) -> None:
        for source, rank in enumerate(self._ranks):
            for to, other in enumerate(self._ranks):
                sent, wanted = tables[source][0][to], tables[to][1][source]
                if sent != wanted:
                    raise CollectiveMismatch(
                        f"ranks disagree in all_to_all of {self._shown_name()}: rank {rank} sends "
                        f"{sent} {dtype_name(dtype)} to rank {other}, which receives {wanted}")

    # Without data, and between two ranks.

    def barrier(self, opts: Any = None) -> SharedWork:
        return self._call(signature("barrier"), [], [], None)

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        self.barrier().wait()

    def send(self, tensors: Any, to: int, tag: int = 0) -> SharedWork:
        (tensor,) = listed(tensors)
        self._mail.send(tensor, to, tag)
        return self._noted(DoneWork([tensor]))

    def recv(self, tensors: Any, source: int, tag: int = 0) -> SharedWork:
        (tensor,) = listed(tensors)
        return self._noted(SharedWork(self._mail, self._mail.receive(tensor, source, tag),
                                      [tensor]))

    def recv_anysource(self, tensors: Any, tag: int = 0) -> SharedWork:
        (tensor,) = listed(tensors)
        return self._noted(SharedWork(self._mail, self._mail.receive(tensor, None, tag), [tensor]))

    # Coalescing: calls in between are posted at once, and have one handle.

    def _noted(self, work: SharedWork) -> SharedWork:
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _start_coalescing(self, _: Any = None) -> None:
        self._coalesced = []

    def _end_coalescing(self, _: Any = None) -> SharedWork:
        works, self._coalesced = self._coalesced or [], None
        return JointWork(works)


def _signature(op: str, tensors: Sequence[Tensor], reduce: str = "",
               root: Optional[int] = None) -> bytes:
    return signature(op, tensors[0].dtype, tuple([tensor.numel() for tensor in tensors]), reduce,
                     root)
