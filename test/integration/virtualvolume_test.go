// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"liqo.io/federation/apiserver/apis/federation/v1alpha1"
	"liqo.io/federation/test/integration/framework"
)

func TestVirtualVolumes(t *testing.T) {
	lifecycle{
		kind: "VirtualVolume", resource: "virtualvolumes", short: "vvol", name: "data-db-0",
		namespace: func(t *testing.T, env *framework.Environment) string { return env.MakeNamespace(t) },
		spec:      fields{},
		change:    fields{"move": fields{"target": fields{"clusterName": "turin"}}},
		status: fields{
			"phase": "Moving", "location": fields{"storageClassName": "local", "volumeName": "pv-1"}, "capacity": "1Gi",
			"mountedBy": []any{"db-0"}, "move": fields{"id": "first", "phase": "Copying", "source": fields{}, "target": fields{},
				"bytesTotal": 1 << 30, "bytesCopied": 440 << 20, "filesTotal": 20, "filesCopied": 8,
				"bytesPerSecond": 52 << 20, "remainingSeconds": 12},
		},
		header: []string{"CLUSTER", "PHASE", "READY", "CAPACITY", "MOUNTED BY", "MOVE", "AGE",
			"STORAGE CLASS", "VOLUME", "REMOTE CLAIM", "MOVE TARGET", "STRATEGY"},
		row: []string{"Local", "Moving", "Unknown", "1Gi", "db-0",
			"Copying (42% of 1Gi, 8/20 files, 52Mi/s, 12s left)", "local", "pv-1", "<none>", "turin", "Online"},
		badSpecs: map[string]fields{
			"spec.move.target":    {"move": fields{"target": fields{"clusterName": nil}}},
			"spec.move.strategy":  {"move": fields{"target": fields{"local": true}, "strategy": "Sometimes"}},
			"spec.move.bandwidth": {"move": fields{"target": fields{"local": true}, "bandwidth": "1"}},
			"spec.move.id":        {"move": fields{"target": fields{"local": true}, "id": "a/b"}},
		},
		badStatuses: map[string]fields{"status.phase": {"phase": "Great"},
			"status.location.clusterID": {"location": fields{"clusterID": "x"}}},
	}.run(t)
}

func TestAppliedMovesGetAnIDAndKeepIt(t *testing.T) {
	env := framework.Get(t)
	namespace := env.MakeNamespace(t)
	volumes := admin(t).FederationV1alpha1().VirtualVolumes(namespace)
	const manifest = `{"apiVersion":"federation.liqo.io/v1alpha1","kind":"VirtualVolume","metadata":{"name":"data"},` +
		`"spec":{"move":{"target":{"local":true}}}}`
	apply := func() *v1alpha1.VirtualVolume {
		t.Helper()
		env.Kubectl(t, manifest, "apply", "--server-side", "--namespace", namespace, "--validate=ignore", "-f", "-")
		volume, err := volumes.Get(t.Context(), "data", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return volume
	}
	first := apply()
	if first.Spec.Move.ID == "" || first.Spec.Move.Verify != v1alpha1.VerifyChanged ||
		*first.Spec.Move.EvictionTimeoutSeconds != 300 {
		t.Errorf("the move is %+v", first.Spec.Move)
	}
	if again := apply(); again.ResourceVersion != first.ResourceVersion || again.Spec.Move.ID != first.Spec.Move.ID {
		t.Errorf("applying the same again changes %+v to %+v", first.Spec.Move, again.Spec.Move)
	}
}
