// Package uws serves a Cutie queue as a Universal Worker Service (IVOA UWS 1.1,
// REC 2016-10-24; 1.0, REC 2010-10-10, if the queue says so). Clients of UWS
// make, start, watch and abort jobs and read their results; consumers of the
// queue do the work.
//
//	GET  POST        /uws/Q/async                      job list; make a job
//	GET  POST DELETE /uws/Q/async/ID                   job; change it; destroy it
//	GET  POST        …/phase …/executionduration …/destruction …/parameters
//	GET              …/quote …/error …/owner …/results …/results/NAME
//	GET  PUT         …/parameters/NAME
//	GET  POST        /uws/Q/sync                       make and run; leads to /uws/Q/sync/ID
//	GET              /uws/Q/sync/ID                    waits, and leads to the result
//	GET              /uws/Q/capabilities /uws/Q/availability
//
// # Jobs
//
// UWS is a view: every job of the queue is in the list, and UWS keeps nothing
// beside the queue. Identifiers of jobs made here contain the job number; other
// jobs are named by their number. Elements of the job file hold the rest:
//
//	uws-id           identifier of a job made here
//	uws-created      creation, if the job replaced another one
//	uws-runid        run identifier
//	uws-upload       name of the parameter in the payload
//	uws-part         position, size and name of a file in a multipart payload
//	uws-duration     seconds the job may run; absent: as the queue says
//	destruction      instant of the destruction; culling spares the job until then
//	uws-destroyed    instant of the destruction; the job is hidden since then
//	uws-archived     the same for ARCHIVED, until an operator requeues the job
//
// Every change of a phase is one event of the queue, or two:
//
//	phase      the job in the queue                      entered by
//	---------  ----------------------------------------  ---------------------------
//	PENDING    on hold for [queuefs.NotStarted]          submit
//	QUEUED     pending, or on hold until a time          release (RUN), submit, requeue
//	HELD       on hold for another reason                hold, by an operator
//	EXECUTING  consumed, with a lease                    consume
//	COMPLETED  consumed; reported, or never to report    outcome, consume
//	ERROR      consumed and reported so                  outcome
//	ABORTED    deleted, or taken out of work             delete, outcome
//	ARCHIVED   marked so                                 update
//	(none)     marked as destroyed                       update
//	UNKNOWN    its job file is damaged, see [Check]      other hands
//
// SUSPENDED is never used. A crash leaves a job before or after an
// event. Destruction ends the work first, so a crash can leave the job ABORTED
// instead; it is destroyed by the next Tick or request.
//
// RUN releases the job to its place in the queue, and so does the release of this
// one job by an operator, or the end that an operator gave its hold; these two are not
// limited. The release of a selection leaves PENDING jobs alone. A
// payload never changes: new parameters submit another job in the place of the
// old one, with the same identifier, unless files are the payload.
//
// # Settings
//
// The properties of the queue for UWS are those of [queuefs.UWS]. Changes apply at once.
//
// # Choices
//
//   - The JDL is a list of names and values. The sidecar has them as
//     "name=value; name=value", with a backslash before ; = and backslash inside
//     of one. The payload has them as a form, or it is the uploaded file, or up to
//     32 files as multipart/form-data.
//   - Names of control parameters (PHASE, RUNID, DESTRUCTION, EXECUTIONDURATION,
//     ACTION) have no case, and come in body or query.
//   - A path with a final slash is the same resource.
//   - Capabilities and availability are for everybody (IVOA Support Interfaces 1.1,
//     2). They tell whether there is a queue of the name.
//   - A client with more waiting requests than the daemon allows gets the answer to
//     WAIT after a second (UWS 1.1, 2.2.1.1), so that it does not ask all the time.
//   - A rejected creation, or a request against the phase, is 403; a bad value is
//     400, as is a name or value with characters that XML cannot carry. Limits are
//     clamped. RUN of a queued job and ABORT of an ended one change nothing.
//   - HTML is for clients with text/html alone in Accept, or beside
//     application/xhtml+xml, or with ?format=html. No Accept is refused.
//   - A request beyond the limits of a user is 403 with the reason. Limits of the user
//     hold over those of the queue; see package quota.
//   - A quote is the time that the queue expects jobs to take (uwsQuote), or else the
//     execution duration of the job, from its start or from now. It is unknown without
//     either, and in a paused queue: nil in a job, and -1 or, in 1.1, empty as a word.
//   - For a list 10,000 jobs of the queue are looked at, from the last on. If there are
//     more, a Link of the relation next leads to the rest of the list.
//   - The result error of a failed job, or error.vot and the like, is its …/error, in
//     the form that the worker chose; /sync leads there.
//   - Owners matter here only: readers of a queue see all of its jobs, the PENDING
//     ones too, in the queue and in the published documents, as with any held job.
//   - References begin with the base of the request, see [web.BaseOf].
package uws
