package anvl

import "strings"

// unescape decodes the escapes of a name or value. A "%" without a valid escape
// stands for itself: property files in use hold "id%4 = 0" and the like.
func unescape(s string) string {
	i := strings.IndexByte(s, '%')
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for ; i >= 0; i = strings.IndexByte(s, '%') {
		b.WriteString(s[:i])
		text, size := unescapeOne(s[i:])
		b.WriteString(text)
		s = s[i+size:]
	}
	b.WriteString(s)
	return b.String()
}

// unescapeOne decodes the escape at the start of s, a "%". It returns its
// meaning and its length in octets.
func unescapeOne(s string) (text string, size int) {
	if len(s) >= 2 && s[1] == '%' {
		return "%", 2
	}
	if len(s) >= 2 && s[1] == '_' {
		return "", 2
	}
	if len(s) < 3 {
		return "%", 1
	}
	if hi, lo := hexDigit(s[1]), hexDigit(s[2]); hi >= 0 && lo >= 0 {
		return string([]byte{byte(hi<<4 | lo)}), 3
	}
	if text, ok := letterCodes[s[1:3]]; ok {
		return text, 3
	}
	return "%", 1
}

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c - 'a' + 10)
	case 'A' <= c && c <= 'F':
		return int(c - 'A' + 10)
	}
	return -1
}

// letterCodes are the two-letter escapes of ERC records. Each holds a letter
// beyond f, so none can be taken for an octet in hexadecimal.
var letterCodes = map[string]string{
	"sp": " ", "ex": "!", "dq": `"`, "ns": "#", "do": "$", "pe": "%", "am": "&",
	"sq": "'", "op": "(", "cp": ")", "as": "*", "pl": "+", "co": ",", "sl": "/",
	"cn": ":", "sc": ";", "lt": "<", "eq": "=", "gt": ">", "qu": "?", "at": "@",
	"ox": "[", "ls": `\`, "cx": "]", "vb": "|", "nu": "\x00",
}
