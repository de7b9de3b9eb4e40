package state_test

import (
	"strings"
	"testing"

	"cutie/queuefs/state"
	"cutie/queuefs/state/statetest"
)

const (
	jobNS    = "http://uc3.cdlib.org/ontology/mrt/cutie/job"
	xmlHead  = `<job:jobState xmlns:job="` + jobNS + `">`
	ttlHead  = "@prefix job: <" + jobNS + "/> .\n"
	pageHead = `<html xmlns="http://www.w3.org/1999/xhtml"><body><table summary="job:jobState">`
	pageFoot = `</table></body></html>`
)

func TestReadersRefuse(t *testing.T) {
	tests := []struct {
		form     state.Form
		in, want string
	}{
		{state.XML, ``, "no job:jobState"},
		{state.XML, `<`, "syntax error"},
		{state.XML, `<jobState/>`, "no job:jobState"},
		{state.XML, `<x:jobState xmlns:x="` + jobNS + `/"/>`, "no job:jobState"},
		{state.XML, `<x:queueState xmlns:x="` + jobNS + `"/>`, "no job:jobState"},
		{state.XML, xmlHead, "EOF"},
		{state.XML, xmlHead + `</job:jobState><x/>`, "text behind"},
		{state.XML, xmlHead + `</job:jobState>x`, "text behind"},
		{state.XML, xmlHead + `x</job:jobState>`, "between elements"},
		{state.XML, xmlHead + `<job:size>1</job:size><job:size>1</job:size></job:jobState>`, "repeated"},
		{state.XML, xmlHead + `<job:size>1<job:x/></job:size></job:jobState>`, "stands in a value"},
		{state.XML, xmlHead + `<job:size>one</job:size></job:jobState>`, "no integer"},
		{state.XML, xmlHead + `<job:size/></job:jobState>`, "no integer"},
		{state.XML, xmlHead + `<job:digestTypes>MD5</job:digestTypes></job:jobState>`, "between elements"},
		{state.XML, xmlHead + `<job:digestTypes><job:digest>MD5</job:digest></job:digestTypes></job:jobState>`, "unexpected"},
		{state.XML, xmlHead + `<job:filename>&nbsp;</job:filename></job:jobState>`, "entity"},
		{state.XML, `<!DOCTYPE x [<!ENTITY e "x">]>` + xmlHead + `<job:filename>&e;</job:filename></job:jobState>`, "entity"},

		{state.XHTML, ``, "no table"},
		{state.XHTML, `<html>`, "syntax error"},
		{state.XHTML, `<table summary="que:queueState"></table>`, "no table"},
		{state.XHTML, pageHead, "EOF"},
		{state.XHTML, pageHead + `<tr><th>size`, "EOF"},
		{state.XHTML, pageHead + `<tr><th>size</th><td>one</td></tr>` + pageFoot, "no integer"},
		{state.XHTML, pageHead + `<tr><th>size</th><td><ul><li>1</li></ul></td></tr>` + pageFoot, "is a list"},
		{state.XHTML, pageHead + `<tr><th>digestTypes</th><td>MD5</td></tr>` + pageFoot, "no list"},
		{state.XHTML, pageHead + `<tr><th>size</th><td>1</td></tr><tr><th>size</th><td>1</td></tr>` + pageFoot, "repeated"},
		{state.XHTML, pageHead + `<tr><th>size</th><td><table/></td></tr>` + pageFoot, "table stands in a cell"},

		{state.SOIF, ``, "no jobState"},
		{state.SOIF, "size: 1\n", "begins with @"},
		{state.SOIF, "@queueState { -\n}\n", "unexpected"},
		{state.SOIF, "@jobState { -\n", "EOF"},
		{state.SOIF, "@jobState { -\n}\n@jobState { -\n}\n", "text behind"},
		{state.SOIF, "@jobState { -\n}\nx", "text behind"},
		{state.SOIF, "@jobState { -\nsize{3}:\tone\n}\n", "no integer"},
		{state.SOIF, "@jobState { -\nsize{9}:\t1\n}\n", "EOF"},
		{state.SOIF, "@jobState { -\nsize{1}:\t1\nSize{1}:\t1\n}\n", "repeated"},
		{state.SOIF, "@jobState { -\ndigestType-2{3}:\tMD5\ndigestType-2{3}:\tMD5\n}\n", "digestType-2: repeated"},
		{state.SOIF, "@jobState { -\nsize{1000000000000000000}:\t1\n}\n", "too large"},

		{state.Turtle, ``, "no job:jobState"},
		{state.Turtle, "\xff", "UTF-8"},
		{state.Turtle, ttlHead, "no job:jobState"},
		{state.Turtle, `<x> <y> <z>`, `want "."`},
		{state.Turtle, `job:x <y> <z> .`, "not declared"},
		{state.Turtle, "@prefix job <x> .", "want a prefix"},
		{state.Turtle, "@bogus <x> .", "want @prefix"},
		{state.Turtle, "\n\n<a> <b> .", "line 3"},
		{state.Turtle, `<a> "b" <c> .`, "want a name"},
		{state.Turtle, `<a> _:b <c> .`, "predicate is no IRI"},
		{state.Turtle, `"a" <b> <c> .`, "want a name"},
		{state.Turtle, `<a> <b> "c .`, "without an end"},
		{state.Turtle, "<a> <b> \"c\nd\" .", "line end within"},
		{state.Turtle, `<a> <b> "\q" .`, "unknown escape"},
		{state.Turtle, `<a> <b> "\u12" .`, "unknown escape"},
		{state.Turtle, `<a> <b> "\UFFFFFFFF" .`, "unknown escape"},
		{state.Turtle, `<a> <b> "x"^^"y" .`, "want a name"},
		{state.Turtle, `<a> <b> 1.2.3 .`, "want a number"},
		{state.Turtle, `<a> <b> ` + strings.Repeat("(", 100), "nested too deeply"},
		{state.Turtle, `<a> <b> ` + strings.Repeat("[<c> ", 100), "nested too deeply"},
		{state.Turtle, `<a> <b> 1` + strings.Repeat(",1", 1<<18), "more than"},
		{state.Turtle, `<a> <b> (1` + strings.Repeat(" 1", 1<<18), "more than"},
		{state.Turtle, ttlHead + `<a> a job:jobState . <b> a job:jobState .`, "more than one"},
		{state.Turtle, ttlHead + `<a> job:size 1 . <b> job:size 2 .`, "more than one"},
		{state.Turtle, ttlHead + `<a> job:size 1, 2 .`, "repeated"},
		{state.Turtle, ttlHead + `<a> job:size "one" .`, "no integer"},
		{state.Turtle, ttlHead + `<a> job:size [] .`, "without a name"},
		{state.Turtle, ttlHead + `<a> job:digestTypes "MD5" .`, "no collection"},
		{state.Turtle, ttlHead + `<a> job:digestTypes ([]) .`, "without a name"},
		{state.Turtle, "@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .\n" + ttlHead +
			`<a> job:digestTypes _:l . _:l rdf:first "x"; rdf:rest _:l .`, "no collection"},
	}
	for _, tt := range tests {
		if d, err := statetest.Read(tt.form, state.JobClass, []byte(tt.in)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %.200q: got %+v, error %v, want %q", tt.form, tt.in, d, err, tt.want)
		}
	}
}

// What others may write for the same.
func TestReadersUnderstandOtherSpellings(t *testing.T) {
	const want = "identifier: j000000000042\nsize: 6\nsubmitted: 2010-04-20T16:00:00.000000Z\nstatus: pending\n" +
		"filename: %20\ndigestType: MD5\ndigestType: SHA-256\n"
	for i, tt := range []struct {
		form     state.Form
		in, want string
	}{
		{state.XML, "\ufeff<?xml version='1.0'?><!-- x --><jobState xmlns='" + jobNS + `'><future><a/></future><status><![CDATA[pend]]>ing</status>
			<x:size xmlns:x="` + jobNS + `">+6</x:size><size xmlns="urn:other">7</size><submitted>2010-04-20T09:00:00-07:00</submitted>
			<digestTypes> <digestType>MD5</digestType><digestType>SHA-256</digestType></digestTypes>
			<filename> </filename><identifier>j0000000000<!-- x -->42</identifier></jobState> <!-- x -->`, want},
		{state.SOIF, "@JOBSTATE { http://h/other\nfuture{1}:\tx\nStatus{7}:\tpendingSIZE{2}:\t+6\r\n filename{1}:\t \ndigestType-10{7}:\tSHA-256\n" +
			"submitted{25}:\t2010-04-20T09:00:00-07:00 digestType{3}:\tMD5\nidentifier{13}:\tj000000000042}", want},
		{state.XHTML, `<html><table summary="Contents"><tr><td>size</td><td>9</td></tr></table>
			<table><tbody><tr><td>future</td><td>x&nbsp;y</td></tr><tr><td>status</td><td><b>pend</b>ing</td></tr><tr><td>size</td><td>6</td></tr>
			<tr><td>submitted</td><td>2010-04-20T09:00:00-07:00</td></tr><tr><td>digestType</td><td>MD5</td></tr><tr><td>digestType</td><td>SHA-256</td></tr>
			<tr><td>filename</td><td> </td></tr><tr><td>identifier</td><td>j000000000042</td></tr></tbody></table>
			<table><tr><td>size</td><td>9</td></tr></table></html>`, want},
		{state.Turtle, `PREFIX : <` + jobNS + `/> # comment
			base <http://h/x/> prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
			[ :status """pending""" ] :identifier 'j000000000042'; :size +6 ;; .
			<other> <about> "\U0001F98A", 1.5e3, -.5, true, _:x.y, [ a :x ; ] ; a <#x> .`,
			"identifier: j000000000042\nsize: 6\nstatus: pending\n"},
		{state.Turtle, `@prefix j: <` + jobNS + `/> . @base <http://h/x/> .
			<../state> j:status '''pend\u0069ng'''@en-GB ; j:queueState <../state/q>; j:f\.x 1 . j:%41 a <b>.`,
			"queueState: http://h/state/q\nstatus: pending\n"},
	} {
		d, err := statetest.Read(tt.form, state.JobClass, []byte(tt.in))
		if got := string(state.ANVL.Append(nil, &d)); err != nil || got != tt.want {
			t.Errorf("%d: got %q, %v, want %q", i, got, err, tt.want)
		}
	}
}
