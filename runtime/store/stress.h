/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stress.h - the places where the stress build (-DDDICT_STRESS) delays reader and writer, and the
 * mistakes (mutants) that it can switch on. In the product all of this is empty.
 */
#ifndef DDICT_STORE_STRESS_H
#define DDICT_STORE_STRESS_H

enum stress_place {
    STRESS_R_ROOT,    /* reader: root word loaded */
    STRESS_R_DIR,     /* directory word loaded */
    STRESS_R_PROBE,   /* move counter loaded, before the probe */
    STRESS_R_FOUND,   /* slot word matches, before the lease is stored */
    STRESS_R_LEASED,  /* lease stored, before the fence */
    STRESS_R_FENCED,  /* before the re-check */
    STRESS_R_CHECKED, /* re-checked, before the item is read */
    STRESS_R_MISSED,  /* probe without a hit, before the validation (I8) */
    STRESS_W_READY,   /* writer: all is written, before the swing */
    STRESS_W_SWUNG,   /* before the old item is retired */
    STRESS_W_NAMED,   /* split: sibling named, before the counter is odd */
    STRESS_W_COPIED,  /* copied, before MOVED (or the other way round: mutant 7) */
    STRESS_W_MOVED,   /* all moved, before the directory words */
    STRESS_W_GROWN,   /* deeper directory written, before the root */
    STRESS_W_SWEPT,   /* segment emptied after clear */
    STRESS_W_SCANNED, /* scan done, before blocks are reused */
    STRESS_W_PAGES,   /* page map entries of a run half written */
    /* spill: a block there and its item are made, before the value is written */
    STRESS_W_CHOSEN,
    STRESS_W_WRITTEN,  /* spill: values are on the disk, before the words name them there */
    STRESS_W_EVICTING, /* cached item chosen, before its word is EMPTY */
    /* queue: a hidden word stored or EMPTY, before its record says so; the next value's item half
     * changed */
    STRESS_W_HIDDEN,
    STRESS_W_CARRIED, /* item copied to another block, before its word names that */
    STRESS_PLACES
};

enum stress_mutant {
    MUTANT_NONE,
    MUTANT_NO_LEASE,     /* 1: the reader stores no lease */
    MUTANT_NO_RECHECK,   /* 2: the reader does not look at the word again */
    MUTANT_NO_SCAN,      /* 3: the writer reuses a retired block without a scan */
    MUTANT_LATE_SLOT,    /* 4: the slot is stored after the re-check */
    MUTANT_NO_MOVED,     /* 5: a split leaves the old word as it was */
    MUTANT_BLIND_MISS,   /* 6: a miss is reported without validation */
    MUTANT_EARLY_MOVED,  /* 7: MOVED is stored before the copy */
    MUTANT_FRESH_RETIRE, /* 8: a block is retired before its word is replaced */
    /* 9: several look-ups at once: only the first looks at its word again */
    MUTANT_FIRST_ONLY,
    MUTANT_FRESH_EVICT, /* 10: a cached item is retired before its word is EMPTY */
    MUTANT_KEEP_READ,   /* 11: unfreezing passes over cached items that were read */
    MUTANT_FRESH_MOVE,  /* 12: an item's old block is free before its word is replaced */
    /* the mutants before it do harm while all processes live; the others, and 7, when a manager is
     * killed */
    MUTANTS_LIVE,
    MUTANT_BLIND_REPEAT = MUTANTS_LIVE, /* 13: a split that is repeated copies words again */
    MUTANT_EARLY_DONE,                  /* 14: the intent of a pop is done before the swing */
    MUTANT_KEEP_CACHED,     /* 15: a manager that opens a frozen arena keeps what was cached */
    MUTANT_STALE_OPERATION, /* 16: a request begins with the last one's change still recorded */
    MUTANTS
};

#ifdef DDICT_STRESS
extern int stress_mutant;
void stress_point(enum stress_place where);
#define STRESS_POINT(w) stress_point(w)
#define MUTANT(m)       __builtin_expect(stress_mutant == (m), 0)
#else
#define STRESS_POINT(w) ((void)0)
#define MUTANT(m)       0
#endif

#endif
