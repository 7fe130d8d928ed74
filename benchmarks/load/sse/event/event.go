// Package event is the one format that the origin writes and the client checks: an event of exactly Size bytes, with
// its place in the stream and the time of its sending. It is a chat completion's chunk: one line of data and an empty
// line, so a gateway that works line by line handles two per event; and a usage that is null, as in all but the last
// chunk of those who have asked for it, so that one that looks for usage has to look at each.
package event

import (
	"fmt"
	"strconv"
)

// Size is every event's length, so that a reader needs no search for its end.
const Size = 200

// Numbers have a fixed width and therefore a fixed place.
const (
	head   = `data: {"id":"chatcmpl-`
	middle = `","object":"chat.completion.chunk","created":`
	tail   = `,"choices":[{"index":0,"delta":{"content":"`
	end    = `"},"finish_reason":null}],"usage":null}` + "\n\n"

	sequenceWidth = 10
	sentWidth     = 19
	sequenceAt    = len(head)
	sentAt        = sequenceAt + sequenceWidth + len(middle)
	textAt        = sentAt + sentWidth + len(tail)
)

// template has spaces where the numbers go: JSON allows them in front of a number.
var template = func() [Size]byte {
	var event [Size]byte
	for i := range event {
		event[i] = ' '
	}
	copy(event[:], head)
	copy(event[sequenceAt+sequenceWidth:], middle)
	copy(event[sentAt+sentWidth:], tail)
	const text = "tokens of text "
	for i := textAt; i < Size-len(end); i++ {
		event[i] = text[(i-textAt)%len(text)]
	}
	copy(event[Size-len(end):], end)
	return event
}()

// Write fills buffer with one event. sentNanoseconds is Unix time.
func Write(buffer *[Size]byte, sequence, sentNanoseconds int64) {
	*buffer = template
	right(buffer[sequenceAt:sequenceAt+sequenceWidth], sequence)
	right(buffer[sentAt:sentAt+sentWidth], sentNanoseconds)
}

// Parse returns an event's two numbers, or an error when a byte around them is not what Write put there.
func Parse(buffer *[Size]byte) (sequence, sentNanoseconds int64, err error) {
	sequence, err = number(buffer[sequenceAt : sequenceAt+sequenceWidth])
	if err == nil {
		sentNanoseconds, err = number(buffer[sentAt : sentAt+sentWidth])
	}
	if err != nil {
		return 0, 0, err
	}
	var expected [Size]byte
	if Write(&expected, sequence, sentNanoseconds); expected != *buffer {
		return 0, 0, fmt.Errorf("altered event %q", buffer[:])
	}
	return sequence, sentNanoseconds, nil
}

func right(field []byte, value int64) {
	digits := strconv.AppendInt(make([]byte, 0, sentWidth), value, 10)
	copy(field[len(field)-len(digits):], digits)
}

func number(field []byte) (int64, error) {
	for len(field) > 1 && field[0] == ' ' {
		field = field[1:]
	}
	return strconv.ParseInt(string(field), 10, 64)
}
