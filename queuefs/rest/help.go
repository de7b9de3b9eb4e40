package rest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"cutie/queuefs/home"
	"cutie/queuefs/state"
	"cutie/queuefs/web"
)

// help is Help (Cutie 5.1).
func (h *Handler) help(w http.ResponseWriter, r *request) error {
	about := r.PathValue("method")
	if about == "" {
		return h.answerHelp(w, r, overview(h.table()))
	}
	for _, row := range h.table() {
		for _, name := range append([]string{row.help.Name, row.help.Method}, row.help.Aliases...) {
			if strings.EqualFold(name, about) {
				return h.answerHelp(w, r, row.help.Help)
			}
		}
	}
	return web.Errorf(http.StatusNotFound, "no help about %.40q, see /help", about)
}

func (h *Handler) answerHelp(w http.ResponseWriter, r *request, help state.Help) error {
	// Help is also plain text, for clients that prefer it.
	t, _, err := r.param("t")
	if err != nil {
		return err
	}
	if t == "" && likesText(state.ParseAccept(r.Header.Get("Accept"))) {
		return text(w, plain(help))
	}
	form, err := r.form()
	if err != nil {
		return err
	}
	d := state.OfHelp(help)
	d.Base = h.base(r.Request)
	if isPage(form) && r.browser() {
		return h.answerPage(w, r, form, &d)
	}
	h.answer(w, http.StatusOK, form, &d)
	return nil
}

func likesText(a state.Accept) bool {
	q := a.Quality("text/plain")
	for f := state.ANVL; f.MediaType() != ""; f++ {
		if a.Quality(f.MediaType()) >= q {
			return false
		}
	}
	return true
}

// overview lists the methods in the order of their first rows.
func overview(table []row) state.Help {
	help := state.Help{Summary: "Cutie, a directory-based queuing service"}
	var b strings.Builder
	for _, row := range table {
		if !slices.Contains(help.Methods, row.help.Name) {
			help.Methods = append(help.Methods, row.help.Name)
			b.WriteString(row.help.Request + "\n    " + row.help.Summary + "\n")
		}
	}
	help.Text = b.String()
	return help
}

func plain(h state.Help) string {
	s := h.Summary + "\n\n"
	if h.Request != "" {
		s += h.Request + "\n\n"
	}
	return s + strings.TrimSuffix(h.Text, "\n") + "\n"
}

// version answers with the name and version of the implementation.
func (h *Handler) version(w http.ResponseWriter) error {
	return text(w, home.Scheme+"\n")
}

// openAPI answers with the description of all methods by OpenAPI.
func (h *Handler) openAPI(w http.ResponseWriter, _ *request) error {
	body, err := h.description()
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", state.JSON.MediaType())
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // nobody is left to be told
	return nil
}

func text(w http.ResponseWriter, s string) error {
	header := w.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Content-Length", strconv.Itoa(len(s)))
	header["X-Content-Type-Options"] = noSniff
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write([]byte(s)) // nobody is left to be told
	return nil
}

// Help about the methods, in the order of Cutie 5.
var (
	aboutHelp = &web.Help{Name: "help", Help: state.Help{
		Method:  "Help",
		Summary: "Help about the service or one of its methods",
		Request: "GET /help[/METHOD]",
		Text: "The form of help, state and errors is chosen by ?t=anvl|json|turtle|xhtml|xml|soif or\n" +
			"by Accept, the default is XHTML; schemas are at /schema/queue.xsd and .json,\n" +
			"and that of a JSON object of any @type at /schema/TYPE.json; all methods are\n" +
			"described by OpenAPI 3.1 at /openapi.json;\n" +
			"?h on any request asks for help about its method, ?V for the version.\n" +
			"Q is the identifier or name of a queue, percent-encoded; J that of a job.",
	}}
	aboutGetServiceState = &web.Help{Name: "getServiceState", Help: state.Help{
		Method: "Get-service-state", Summary: "State of the service with references to its queues",
		Request: "GET /state[?after=Q][&limit=N]",
		Text: "Names the queues after Q, in the order of queues.txt. limit is how many, 1 to\n" +
			"1000, by default 1000; a Link of the relation next refers to the rest.\n" +
			"Errors: 404 no such queue, 415 unsupported form.",
	}}
	aboutGetQueueState = &web.Help{Name: "getQueueState", Help: state.Help{
		Method: "Get-queue-state", Summary: "State of a queue with references to its jobs",
		Request: "GET /state/Q[?status=pending|consumed|deleted][&outcome=completed|error|aborted][&held][&batch=B][&after=J][&limit=N|all][&detail][&submitter=A]",
		Text: "Lists the jobs for which all of that holds. limit is how many are listed, 0 to\n" +
			"1000, by default 100; jobsNext refers to the rest. limit=all names all jobs, in any\n" +
			"form but SOIF. With detail it is the states of\n" +
			"the jobs themselves: ANVL records separated by empty lines, a JSON array, XML in\n" +
			"the element job:jobStates, one Turtle graph, or a table; a Link of the relation\n" +
			"next refers to the rest. submitter wants detail, and limit is then how many jobs\n" +
			"are looked at. Errors: 404 queue or batch not found, 415.",
	}}
	aboutGetJobState = &web.Help{Name: "getJobState", Help: state.Help{
		Method: "Get-job-state", Summary: "State of a job",
		Request: "GET /state/Q/J",
		Text:    "Errors: 404 queue or job not found, 415.",
	}}
	aboutCreateQueue = &web.Help{Name: "createQueue", Help: state.Help{
		Method: "Create-queue", Summary: "Make an empty queue",
		Request: "PUT /state/Q[?PROPERTY=VALUE...]",
		Text: "Properties are those of Set-queue, in the query or in a body that is a form,\n" +
			"ANVL or JSON. Answers 201. If there is such a queue the properties are set and\n" +
			"the answer is 200, or 412 with the header If-None-Match: *, or if If-Match names\n" +
			"another state. POST /state with the property identifier makes a queue too, or\n" +
			"answers 409.",
	}}
	aboutSetQueue = &web.Help{Name: "setQueue", Aliases: []string{"setQueueBehavior", "set-queue-behavior"}, Help: state.Help{
		Method: "Set-queue", Summary: "Set properties of a queue, pause it or go on",
		Request: "POST /state/Q[?S=pause|restart][&PROPERTY=VALUE...]",
		Text: propertyHelp() +
			"Properties come in the query or in a body that\n" +
			"is a form, ANVL or JSON; an empty one is unset. After a transient failure, or a\n" +
			"lease that ended without a report, a job is put back for another attempt, on hold\n" +
			"for retryDelay times retryFactor for each further attempt, at most retryMax. When\n" +
			"maxAttempts are used up, or after a fatal failure, it has failed and stays with\n" +
			"its message. A paused queue hands out no job. A queue is renamed by making\n" +
			"another. With seen-PROPERTY beside a property it changes from that value alone, and\n" +
			"not at all if both are the same. Errors: 400, 404, 409 another queue has the name,\n" +
			"or the property is not as seen, 412 If-Match names another state.\n" +
			"A submitter's digest is always compared with the payload as it comes in. With\n" +
			"verifyOnWrite a payload is also read again, from the disk where the system can,\n" +
			"before the answer to its submission. With verifyOnRead payloads are\n" +
			"compared before they are handed out or peeked at.",
	}}
	aboutRemoveQueue = &web.Help{Name: "removeQueue", Help: state.Help{
		Method: "Remove-queue", Summary: "Remove a queue without jobs",
		Request: "DELETE /state/Q[?lost]",
		Text: "Answers 200 with the state of the service. A queue whose directory is lost is not\n" +
			"served; lost removes it for good, with its published documents. Errors: 404, 409 the\n" +
			"queue has jobs, or its directory is there, 503 its directory is lost.",
	}}
	aboutCull = &web.Help{Name: "cull", Help: state.Help{
		Method: "Cull", Summary: "Remove processed jobs as the thresholds say",
		Request: "POST /cull[/Q][?dry]",
		Text: "culledJobs are what is gone, or would be with dry: queue, job, where it stood,\n" +
			"since when, octets. moreJobs says that there is more to cull. keptJobs are how\n" +
			"many jobs of a queue stay though they are due: spared, as UWS has promised.\n" +
			"Jobs taken with Idempotency-Key and without a lease stay for five minutes.\n" +
			"Errors: 404.",
	}}
	aboutSubmitJob = &web.Help{Name: "submitJob", Aliases: []string{"put"}, Help: state.Help{
		Method: "Submit-job", Summary: "Put jobs at the end of a queue",
		Request: "POST /content/Q[?type=job|batch-manifest][&filename=][&sidecar=][&digest-type=&digest-value=][&not-before=TIME]",
		Text: "The body is the payload, of any media type; or multipart/form-data with the\n" +
			"parts file (repeated for several jobs, all or nothing), and for a single job\n" +
			"sidecar, digest-type and digest-value. A sidecar is of up to 64 KiB of any octets,\n" +
			"or none. Digests may come in the headers\n" +
			"Content-Digest, Repr-Digest and Content-MD5, the sidecar percent-encoded in\n" +
			"Cutie-Sidecar, the filename in Content-Disposition. With not-before, or the header\n" +
			"Cutie-Not-Before, also of a part, jobs are on hold until that time. Answers 201\n" +
			"with Location.\n" +
			"A batch manifest (Checkm) names files that are fetched and submitted, all or\n" +
			"none; a line @URL stands for the lines of the manifest there. A body or part of\n" +
			"the media type text/checkm is a manifest unless type=job. With Prefer:\n" +
			"respond-async the answer is 202 with the Location of the state of the batch.\n" +
			"With the header Idempotency-Key, 1 to 255 visible ASCII characters of the\n" +
			"client's choice, the request may be sent again: as long as the job is known, the\n" +
			"same key and payload are answered 200 with Idempotency-Replayed: true and the\n" +
			"present state of the job, and nothing is stored. Job N of a request with several\n" +
			"has the key KEY#N; a part of a form may have the header instead, each its own.\n" +
			"Each user has keys of his own, and those without a name have them in common.\n" +
			"While another request with the key is being stored, this one waits for it.\n" +
			"Errors: 400 no body or digest verification failed, 404, 408 body too slow, 409 queue refuses\n" +
			"submissions, or the key is busy for more than 30 seconds, 413 too large, 415 form or type\n" +
			"not known, 422 the key is of another payload or number of jobs, 507 out of space.",
	}}
	aboutGetBatchState = &web.Help{Name: "getBatchState", Help: state.Help{
		Method: "Get-batch-state", Summary: "How far a batch manifest is",
		Request: "GET /batch/Q/B",
		Text: "B is from the Location of the answer 202. The state is kept for an hour after\n" +
			"the end, and until the service stops. Errors: 404.",
	}}
	aboutGetNextJob = &web.Help{Name: "getNextJob", Aliases: []string{"get"}, Help: state.Help{
		Method: "Get-next-job", Summary: "Take the job at the head of a queue",
		Request: "POST /consume/Q[?max=N][&wait=SECONDS][&lease=SECONDS]",
		Text: "Answers 200 with multipart/form-data (parts payload and sidecar), or as Accept\n" +
			"prefers multipart/mixed or the bare payload (application/octet-stream);\n" +
			"t=multipart asks for the first whatever Accept says. Content-Location names the job. With max, up to 1000 jobs come as the parts of\n" +
			"multipart/mixed. With wait, it waits up to 60 seconds for a job. With lease, or\n" +
			"if the queue wants reports, Cutie-Lease is the token for Extend-lease,\n" +
			"Report-outcome and Put-result, Cutie-Lease-Expires when it is over, and\n" +
			"Cutie-Attempt how often the job was handed out; then without a report the job\n" +
			"goes back. With the bare payload the sidecar is percent-encoded in Cutie-Sidecar;\n" +
			"beyond 4 KiB a Link of the relation .../rel/sidecar leads to it. Repr-Digest has the\n" +
			"SHA-256 of the payload at its submission, beside the bare payload and in each part\n" +
			"of multipart/mixed: compare it. With the header\n" +
			"Idempotency-Key the request may be sent again: it gets\n" +
			"the same jobs and tokens, with Idempotency-Replayed: true, until their leases end\n" +
			"or their outcomes are reported; jobs without a lease for five minutes. A key is of\n" +
			"one user, and for whoever has it as good as the token: take a UUID. While another\n" +
			"request with the key waits for a job, this one waits, too: 409 after its wait, or\n" +
			"30 seconds. 204: the queue is empty or paused. A job whose payload cannot be read\n" +
			"goes back, too, or on hold if that is not for the moment; the answer says so.\n" +
			"If it had begun, with max, it is cut off before that job. Errors: 404 queue not\n" +
			"found, 500 or 503 a payload cannot be read.",
	}}
	aboutPeekAtJob = &web.Help{Name: "peekAtJob", Aliases: []string{"peek", "peekJob"}, Help: state.Help{
		Method: "Peek-at-job", Summary: "Look at a job and leave it where it is",
		Request: "GET /content/Q[/J][?part=sidecar]",
		Text: "Without J it is the job at the head, else a job of any status. Answers as\n" +
			"Get-next-job, or with the octets of the sidecar alone. Errors: 404 queue or job not found.",
	}}
	aboutDeleteJob = &web.Help{Name: "deleteJob", Aliases: []string{"rm", "deleteItem"}, Help: state.Help{
		Method: "Delete-job", Summary: "Take a pending job out of the queue",
		Request: "DELETE /content/Q/J",
		Text: "Answers 202, also if it was deleted before. POST /delete/Q/J does the same, and\n" +
			"POST /delete/Q with a selection as for Requeue-job takes out many jobs. Errors:\n" +
			"404, 409 the job was consumed.",
	}}
	aboutHoldJob = &web.Help{Name: "holdJob", Help: state.Help{
		Method: "Hold-job", Summary: "Keep a pending job from being taken",
		Request: "POST /hold/Q[/J][?reason=TEXT][&until=TIME]",
		Text: "At the TIME, such as 2026-11-25T08:00Z, the job is released by itself; without\n" +
			"one a hold has no end. Without J a selection as for Requeue-job says which jobs.\n" +
			"Errors: 400, 404, 409 the job is not pending.",
	}}
	aboutReleaseJob = &web.Help{Name: "releaseJob", Help: state.Help{
		Method: "Release-job", Summary: "Let a job that is held be taken again, in its place",
		Request: "POST /release/Q[/J]",
		Text: "Without J a selection as for Requeue-job says which jobs. Errors: 404, 409 the\n" +
			"job is not pending.",
	}}
	aboutRequeueJob = &web.Help{Name: "requeueJob", Help: state.Help{
		Method: "Requeue-job", Summary: "Put a consumed or deleted job back in its place",
		Request: "POST /requeue/Q[/J][?end|force][&SELECTION]",
		Text: "A failed job has all its attempts again. With end the payload comes into the\n" +
			"queue again as a new job at its end, which is the answer, 201; the old job names\n" +
			"it. With force a job in work is taken from its consumer, whose report is refused\n" +
			"then. A closed queue takes the job too, and the limits of users do not count:\n" +
			"both are for submissions. Errors: 404, 409 a consumer works on the job, or with\n" +
			"end the job is pending or was put at the end before.\n" +
			"Without J a selection says which jobs, at least one of: status, outcome, held,\n" +
			"batch, submitter, older (since the last change: hours, or a duration such as 90m\n" +
			"or 7d), job (repeated), or a body of text/plain with one J a line. What all that\n" +
			"is said holds for, and what the method fits, is changed one after another, at\n" +
			"most 10000 jobs or limit, and only listed with dry: changedJobStates or\n" +
			"chosenJobStates. refusedJobs were named and not changed. moreJobs says that the\n" +
			"same request with after=moreAfter may change others, as may the Link of the\n" +
			"relation next, which there is if the body names no job; a call ends after 20\n" +
			"seconds.",
	}}
	aboutExtendLease = &web.Help{Name: "extendLease", Help: state.Help{
		Method: "Extend-lease", Summary: "Say that a job is still worked on",
		Request: "POST /lease/Q/J[?seconds=N]",
		Text: "The token comes in the header Cutie-Lease or the parameter lease. Answers 200\n" +
			"with the new Cutie-Lease-Expires. Errors: 404, 410 the lease is gone: stop\n" +
			"working.",
	}}
	aboutReportOutcome = &web.Help{Name: "reportOutcome", Help: state.Help{
		Method: "Report-outcome", Summary: "Say what became of a job",
		Request: "POST /outcome/Q/J?outcome=completed|error|released[&message=TEXT][&type=transient|fatal][&retryIn=SECONDS]",
		Text: "Ends the lease, whose token comes as for Extend-lease. A job that is released is\n" +
			"pending again, whatever maxAttempts. After a transient error it is pending again,\n" +
			"too, on hold for retryIn or as the queue says (see Set-queue), unless this was the\n" +
			"last of maxAttempts. Errors: 404, 410 the lease is gone, and nothing was changed.",
	}}
	aboutAbortJob = &web.Help{Name: "abortJob", Help: state.Help{
		Method: "Abort-job", Summary: "Take a job out of work",
		Request: "POST /abort/Q/J[?message=TEXT]",
		Text: "A pending job is deleted, the lease of a consumed one revoked; the outcome is\n" +
			"aborted. Errors: 404, 409 nobody works on the job.",
	}}
	aboutPutResult = &web.Help{Name: "putResult", Help: state.Help{
		Method: "Put-result", Summary: "Store what a job has led to",
		Request: "PUT /result/Q/J/NAME",
		Text: "The token of the lease comes as for Extend-lease; for 15 minutes after an abort\n" +
			"it still holds here. The result error, or error.vot and the like, is the detail of\n" +
			"an error. NAME is 1 to 64 letters, digits\n" +
			"and . _ -, with no dot first. The body is kept with its Content-Type; digests are\n" +
			"given as for Submit-job. Answers 201. Errors: 400, 404, 409 there is one of that\n" +
			"name, 410 the lease is gone, 413.",
	}}
	aboutGetResult = &web.Help{Name: "getResult", Help: state.Help{
		Method: "Get-result", Summary: "Read what a job has led to",
		Request: "GET /result/Q/J/NAME",
		Text:    "Errors: 404.",
	}}
	aboutWatch = &web.Help{Name: "watch", Help: state.Help{
		Method: "Follow-events", Summary: "Be told what happens to jobs, as it happens",
		Request: "GET /events[/Q][?kind=][&status=][&from=N]",
		Text: "Answers text/event-stream, as browsers read it; with the header Last-Event-ID the\n" +
			"events follow that came after it. Kinds are submit, consume, delete, requeue,\n" +
			"cull, update, hold, release, lease, outcome. A job of UWS that is not started is\n" +
			"pending and on hold, and its start is release. status is where an event leads to.\n" +
			"Errors: 404, 503 too many follow.",
	}}
)

// propertyHelp explains the properties of a queue, each in a paragraph.
func propertyHelp() string {
	var b strings.Builder
	for i := range home.Properties {
		p := &home.Properties[i]
		if p.Fixed {
			continue
		}
		text := p.Name + ": "
		switch p.Kind() {
		case home.Seconds:
			text += "seconds, "
		case home.Truth:
			text += "true or false, "
		}
		at := 0
		for word := range strings.FieldsSeq(text + strings.ReplaceAll(p.Help, "`", "")) {
			switch {
			case at == 0:
			case at+1+len(word) > 80:
				b.WriteString("\n  ")
				at = 1
			default:
				b.WriteByte(' ')
			}
			b.WriteString(word)
			at += 1 + len(word)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
