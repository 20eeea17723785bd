// Copyright The Liqo Federation Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"liqo.io/federation/apiserver/volume"
)

// Labels and annotations of the objects that a move creates.
const (
	// LabelRole is, on a pod of a move, receiver or sender.
	LabelRole = "storage.liqo.io/mover"
	// AnnotationPass is, on the receiver, the content of its file with the pass to copy.
	AnnotationPass = "storage.liqo.io/pass"
	// annotationTouched is changed on a claim to let Kubernetes compute its phase.
	annotationTouched = "storage.liqo.io/touched"

	roleReceiver = "receiver"
	roleSender   = "sender"
)

// annotationMark is the key of the mark on a volume that is the source or the target of a move. A
// marked volume is not handed back to its class.
const annotationMark = volume.LabelMove

// Mark is written on the source and target volume of a move, so that the move can be finished or
// rolled back when its VirtualVolume was deleted or restored from an older state.
type Mark struct {
	// ID is the ID of the move.
	ID string `json:"id"`
	// Namespace and Claim name the user's claim, and ClaimUID is its UID when the move began.
	Namespace string    `json:"namespace"`
	Claim     string    `json:"claim"`
	ClaimUID  types.UID `json:"claimUID,omitempty"`
	// Source and Target are the names of the volumes; Target is empty before there is one.
	Source string `json:"source"`
	Target string `json:"target,omitempty"`
	// Policy is the former reclaim policy of the volume.
	Policy corev1.PersistentVolumeReclaimPolicy `json:"policy"`
	// KeepSource keeps the source after the move.
	KeepSource bool `json:"keepSource,omitempty"`
	// TargetClaimUID is the UID of the receiver's claim, which is bound to the target.
	TargetClaimUID types.UID `json:"targetClaimUID,omitempty"`
	// Manifest is the user's claim as it is created again, with the target as its volume. The target
	// has it from the start of the switch on.
	Manifest *corev1.PersistentVolumeClaim `json:"manifest,omitempty"`
	// Owner is the user whose files the movers may read and write in a restricted
	// namespace; nil if they run as root. On the source only, like the following fields.
	Owner *Owner `json:"owner,omitempty"`
	// SELinux are the options of the pods that mount the claim.
	SELinux *corev1.SELinuxOptions `json:"seLinux,omitempty"`
	// Users are the pods, by UID, that may still write to the source.
	Users map[types.UID]User `json:"users,omitempty"`
	// Quiesced is the time at which the last pod in Users ended.
	Quiesced *metav1.MicroTime `json:"quiesced,omitempty"`
}

// Owner is the user and the group that files belong to.
type Owner struct {
	User  int64  `json:"user"`
	Group *int64 `json:"group,omitempty"`
}

// User is a pod that mounts the claim on a node.
type User struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
}

// markOf returns the mark of a volume, and reports whether it has one.
func markOf(object client.Object) (*Mark, bool) {
	value := object.GetAnnotations()[annotationMark]
	if value == "" {
		return nil, false
	}
	mark := &Mark{}
	if json.Unmarshal([]byte(value), mark) != nil || mark.ID == "" || mark.Claim == "" || mark.Namespace == "" {
		return nil, false
	}
	return mark, true
}

// set writes the mark on a volume in memory.
func (k *Mark) set(pv *corev1.PersistentVolume) error {
	value, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("encoding the mark of a move: %w", err)
	}
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, annotationMark, string(value))
	return nil
}

// names are the names of the objects that a move creates in the user's namespace.
type names struct{ source, target, sender, receiver, shared string }

func namesOf(id string) names {
	base := "move-" + id
	return names{
		source: base + "-source", target: base + "-target", sender: base + "-sender", receiver: base + "-receiver",
		shared: base,
	}
}
