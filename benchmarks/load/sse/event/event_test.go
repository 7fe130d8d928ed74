package event

import "testing"

func TestAnEventIsReadBackAsItWasWritten(t *testing.T) {
	var buffer [Size]byte
	Write(&buffer, 42, 1_800_000_000_000_000_000)
	sequence, sent, err := Parse(&buffer)
	if err != nil || sequence != 42 || sent != 1_800_000_000_000_000_000 {
		t.Fatalf("sequence %d, sent %d, %v", sequence, sent, err)
	}
}

func TestNoAlteredByteIsAccepted(t *testing.T) {
	for place := 0; place < Size; place++ {
		var buffer [Size]byte
		Write(&buffer, 7, 1_800_000_000_000_000_000)
		buffer[place] ^= 0x80
		if _, _, err := Parse(&buffer); err == nil {
			t.Errorf("byte %d", place)
		}
	}
}
