// Package uws is a Cutie queue as a Universal Worker Service (IVOA UWS 1.1,
// REC 2016-10-24; 1.0, REC 2010-10-10, where the queue says so): clients of UWS
// make, start, watch and abort jobs and read their results, while consumers of
// the queue do the work.
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
// # Where a job is
//
// A job that was made and not started is no job of the queue yet: the order of
// a queue is that of submission, and nobody may take it. It is a record in
// uws/Q/staged of the home, with uploaded files beside it. RUN submits it. All
// that comes then is the queue's: [queuefs.Job] says it, and the record, now in
// uws/Q/jobs, keeps only what the queue does not know: the limits of the job and
// its number. A job that was submitted otherwise is in the list as well, its
// number is its identifier, and it has a record only once somebody sets a limit
// or destroys it.
//
//	staged/ID         jobs/ID    queue      phase                      after a crash
//	----------------  ---------  ---------  -------------------------  -----------------------------
//	file only         none       none       not there                  the file is removed
//	note              any        any        as without it              told, if it is so and was not; the note is removed
//	record            none       none       PENDING                    as it stands
//	record, aborted   none       none       ABORTED                    as it stands
//	record, running   none       none       PENDING; RUN is on its way as it stands: nobody was told
//	record, running   none       job of ID  PENDING; RUN is on its way found by its number, started
//	any               record     job of ID  by the queue               staged/ID is removed
//	none              none       job of ID  by the queue               as it stands; its number is its identifier
//	none              destroyed  job of ID  not there                  as it stands, until the job is culled
//	none              archived   job of ID  ARCHIVED                   as it stands, until the job is culled
//	none              record     culled     not there                  the record is removed
//	strange           any        any        not there, or by the queue moved to uws/Q/corrupt, and told of
//	older than queue  any        any        not there, or by the queue likewise, also of jobs/ID
//
// A RUN that could not be brought to its end, as on a full disk, is settled as
// after a crash, at the next look or when somebody wants to change the job: a
// job is submitted once. What is older than its queue is of a former one of its
// name, or the queue has a wrong date.
//
// A queue is not removed as long as it has PENDING jobs, see [Handler.MayRemove].
// With it all of uws/Q goes: by a rename to uws/cutie-tmp-removed-*, which is
// removed when nobody uses it any more, or after the next start.
//
// Who destroys a job ends the work on it first, then keeps the record that says
// so, then drops the results: a crash before the record leaves the job ABORTED,
// one behind it results that go at the next look. What an operator puts back
// into the queue after that is a job of the queue alone, or that of an archived
// one again.
//
//	phase      the job in the queue
//	---------  -------------------------------------------------------
//	QUEUED     pending; also again, when it was put back
//	HELD       pending and on hold, which operators do
//	EXECUTING  consumed, and its consumer is to report
//	COMPLETED  consumed and reported so, or by a consumer that never reports
//	ERROR      consumed and reported so
//	ABORTED    deleted, or taken out of work
//
// SUSPENDED and UNKNOWN are never said.
//
// # Phases are events
//
// Where the queue says the phase, its events tell of every change. The others
// are events of the queue all the same, of the kind phase
// ([queuefs.Queue.TellPhase]): PENDING when a job is made, ABORTED when one is
// that was not started, ARCHIVED, and none when a job is destroyed, whether it
// was ever started or not. Whoever reads the events of a queue learns the
// identifiers of its jobs by them. Of a job that is made and started at once
// the submission tells, and nothing before.
//
// The event is on stable storage behind the change and before the answer. A
// note in staged outlives a crash between the two, and the first Tick after it
// tells what was not told. If a change cannot be told, as on a full disk, it
// stands, unless the job was being made; the answer is the error, and a Tick
// tells of it when there is room.
//
// # Settings
//
// queue-info.txt may have these elements, which are read again when it changes:
//
//	uwsVersion               1.1, or 1.0: no attribute or element of 1.1
//	uwsJdl                   form: parameters are fields, payload is the form, or what came as files;
//	                         payload: the body is one opaque parameter
//	uwsExecutionDuration     seconds that a job may run unless its client says otherwise; 0, the default: any time
//	uwsMaxExecutionDuration  seconds, the most a client may ask for; 0, the default: no limit
//	uwsDestruction           hours from its making after which a job is destroyed unless its client says
//	                         otherwise; 0: never. By default the culling age of the queue, or 720. It holds
//	                         for jobs made here only
//	uwsMaxDestruction        hours, the most a client may ask for; 0, the default: no limit
//	uwsArchive               true: a job is archived, not destroyed, when its time has come
//	uwsQuote                 seconds that a job is thought to take, as long as too few have ended to know
//
// If they cannot be understood, the ones before hold on until they can.
//
// # Choices
//
//   - The JDL is a list of names and values. A consumer finds them in the
//     sidecar as "name=value; name=value", with a backslash before ; = and
//     backslash where they are part of one, and as a form in the payload, unless
//     that is the uploaded file, or, if there are several, up to 32, all of them
//     as multipart/form-data.
//   - Names of control parameters (PHASE, RUNID, DESTRUCTION,
//     EXECUTIONDURATION, ACTION) know no case, and come in body or query.
//   - A path with a slash at its end is 404, so that it is never taken for
//     another one than it is by those who decide who may do what; what is only
//     read is found at the path without, by 307.
//   - A rejected creation, and what the phase does not allow, is 403; a bad
//     value is 400, as are names and values with characters that XML cannot
//     carry, whichever way they come. Limits are clamped. RUN of a job that is queued, and ABORT of
//     one that has ended, change nothing and are no error.
//   - HTML is for those whose Accept names application/xhtml+xml, or
//     ?format=html; no request is refused for its Accept.
//   - A quote supposes that as many jobs are done at a time as were lately, and
//     that each takes as long as the last ones did. It is unknown as long as
//     fewer than five have ended, and while the queue is paused.
//   - LAST is 100,000 at most. To see a list of one's own jobs costs reading
//     those of others.
//   - Who owns a job matters here only: who may read a queue finds all of it in
//     the queue and in what is published.
//   - References begin with the base URI of the service.
package uws
