// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"

	"liqo.io/federation/apiserver/apis/federation"
)

func TestTableCellsContainNoControlCharacters(t *testing.T) {
	const hostile = "\x1b[2J\x1b]0;pwned\x07fine\u202e\r\nNAME\x00"
	table := Table[*federation.ResourceOffer]{
		{Name: "Narrow", Cell: func(*federation.ResourceOffer) any { return hostile }},
		{Name: "Wide", Wide: true, Cell: func(*federation.ResourceOffer) any { return hostile }},
		{Name: "Number", Type: "integer", Cell: func(*federation.ResourceOffer) any { return int64(7) }},
	}
	printed, err := table.ConvertToTable(t.Context(), &federation.ResourceOffer{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const want = "[2J]0;pwnedfine NAME"
	if cells := printed.Rows[0].Cells; cells[1] != want || cells[2] != int64(7) || cells[4] != want {
		t.Errorf("cells %q", cells)
	}
}

func TestLatencyHasThreeDigits(t *testing.T) {
	for microseconds, want := range map[int64]string{
		0: None, 7: "7µs", 999: "999µs", 1234: "1.23ms", 12345: "12.3ms", 123456: "123ms", 1234567: "1.235s",
	} {
		if got := Latency(microseconds); got != want {
			t.Errorf("%d µs: got %s, want %s", microseconds, got, want)
		}
	}
}
