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

// Labels and annotations of the objects of a move.
const (
	// LabelRole is the label of a mover's pod with the value receiver or sender.
	LabelRole = "storage.liqo.io/mover"
	// AnnotationPass is the annotation of the receiver that starts the last pass with the value mover.PassFinal. It is
	// mounted in the receiver as a file.
	AnnotationPass = "storage.liqo.io/pass"
	// annotationTouched is the annotation that touch changes on a claim, to make Kubernetes compute its phase.
	annotationTouched = "storage.liqo.io/touched"

	roleReceiver = "receiver"
	roleSender   = "sender"
)

// annotationMark is the annotation of the source and the target volume of a move; its value is a Mark in JSON. Releaser
// does not delete or change a volume that has it.
const annotationMark = volume.LabelMove

// Mark is the value of annotationMark: the record of a move on its source and target volume. With it, the move can be
// completed or rolled back after its VirtualVolume was deleted or restored from an older backup.
type Mark struct {
	// ID is the id of the move.
	ID string `json:"id"`
	// Namespace and Claim are the name of the user's claim, and ClaimUID is its UID when the move started.
	Namespace string    `json:"namespace"`
	Claim     string    `json:"claim"`
	ClaimUID  types.UID `json:"claimUID,omitempty"`
	// Source and Target are the names of the volumes. Target is set on the target volume only.
	Source string `json:"source"`
	Target string `json:"target,omitempty"`
	// Policy is the reclaim policy of the volume with this annotation before the move.
	Policy corev1.PersistentVolumeReclaimPolicy `json:"policy"`
	// KeepSource means that the source volume is retained after the move.
	KeepSource bool `json:"keepSource,omitempty"`
	// TargetClaimUID is the UID of the receiver's claim, which the target volume is bound to during the copy. It is set
	// on the target volume only.
	TargetClaimUID types.UID `json:"targetClaimUID,omitempty"`
	// Manifest is the claim that replaces the user's claim and names the target volume. It is set on the target volume
	// when the phase Switching starts.
	Manifest *corev1.PersistentVolumeClaim `json:"manifest,omitempty"`
	// Owner is the user that the movers run as in a namespace that forbids root; nil means root. Owner and the fields
	// below are set on the source volume only.
	Owner *Owner `json:"owner,omitempty"`
	// SELinux has the SELinux options of the first pod that mounts the claim and specifies any; nil if none does.
	SELinux *corev1.SELinuxOptions `json:"seLinux,omitempty"`
	// Users has the pods that may still write to the source, by UID.
	Users map[types.UID]User `json:"users,omitempty"`
	// Quiesced is the time at which the move found that no pod except the movers uses the source any more.
	Quiesced *metav1.MicroTime `json:"quiesced,omitempty"`
}

// Owner is a user id and a group id; a nil group means the image's default.
type Owner struct {
	User  int64  `json:"user"`
	Group *int64 `json:"group,omitempty"`
}

// User is the name of a pod and of the node that it mounts the claim on, and its grace period in seconds.
type User struct {
	Pod          string `json:"pod"`
	Node         string `json:"node"`
	GraceSeconds int64  `json:"graceSeconds,omitempty"`
}

// markOf returns the Mark in annotationMark of a volume, and whether the volume has a valid one.
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

// ClaimOf returns the name of the claim whose data is being moved from or to a PersistentVolume, from the Mark of the
// volume, and whether the volume has a valid Mark.
func ClaimOf(pv client.Object) (types.NamespacedName, bool) {
	mark, ok := markOf(pv)
	if !ok {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: mark.Namespace, Name: mark.Claim}, true
}

// set writes the Mark to annotationMark of pv, but not to the API server.
func (k *Mark) set(pv *corev1.PersistentVolume) error {
	value, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("encoding the annotation of a move: %w", err)
	}
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, annotationMark, string(value))
	return nil
}

// names has the names of the objects that a move creates in the user's namespace: the claims source and target, the
// pods sender and receiver, and shared, the name of both the Secret and the Service.
type names struct{ source, target, sender, receiver, shared string }

func namesOf(id string) names {
	base := "move-" + id
	return names{
		source: base + "-source", target: base + "-target", sender: base + "-sender", receiver: base + "-receiver",
		shared: base,
	}
}
